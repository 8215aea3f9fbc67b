/* The questions that the CUDA runtime asks its driver, asked by a program that has no runtime in it. */
#include "driver.h"

#define PLACES(name) const void *const *name

static void *ended[3];

static void destructor(void *context, void *key, void *value) {
    ended[0] = context;
    ended[1] = key;
    ended[2] = value;
}

/* The id of a table from its text. */
static int table(PLACES(*places), const char *text) {
    unsigned char id[16];
    for (int at = 0; at < 16; at++) {
        while (*text == '-') text++;
        unsigned byte;
        sscanf(text, "%2x", &byte);
        id[at] = (unsigned char)byte;
        text += 2;
    }
    return cuGetExportTable((const void **)places, id);
}

/* Of each table its id, and its places; one has no size in front. */
static const struct {
    const char *id;
    size_t places;
} TABLES[] = {
    {"6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", 13}, {"a094798c-2e74-2e74-93f2-0800200c0a66", 7},
    {"42d85a81-23f6-cb47-8298-f6e78a3aecdc", 4},  {"c693336e-1121-df11-a8c3-68f355d89593", 0},
    {"263e8860-7cd2-6143-92f6-bbd5006dfa7e", 4},  {"d4082055-bde6-704b-8d34-ba123c66e1f2", 3},
    {"21318c60-9714-3248-8ca6-41ff7324c8f2", 95},
};

static void off(void) {
    PLACES(places) = (const void *const *)TABLES;
    CHECK(cuInit(0));
    for (int again = 0; again < 2; again++)
        for (size_t at = 0; at < sizeof TABLES / sizeof *TABLES; at++) {
            ANSWERS(500, table(&places, TABLES[at].id));
            ASSERT(places == NULL);
        }
}

static void on(void) {
    PLACES(places);
    CUcontext context, primary, own, current;
    int mode = 0;
    CHECK(cuInit(0));
    CHECK(cuModuleGetLoadingMode(&mode));
    ASSERT(mode == 2);
    for (size_t at = 0; at < sizeof TABLES / sizeof *TABLES; at++) {
        CHECK(table(&places, TABLES[at].id));
        ASSERT(TABLES[at].places == 0 || (size_t)places[0] == 8 * TABLES[at].places);
        for (size_t place = 1; place < TABLES[at].places; place++) ASSERT(places[place]);
    }
    ANSWERS(500, table(&places, "f8cff951-2146-8b4e-b9e2-fb469e7c0dd9"));

    CHECK(table(&places, TABLES[0].id));
    CHECK(((int (*)(CUcontext *, int))places[2])(&context, 0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    ASSERT(context == primary);

    CHECK(cuCtxCreate_v2(&own, 0, 0));
    CHECK(table(&places, TABLES[2].id));
    CHECK(((int (*)(CUcontext *, int))places[2])(&current, 0));
    ASSERT(current == own);

    CHECK(table(&places, TABLES[3].id));
    int (*put)(CUcontext, void *, void *, void *) = (int (*)(CUcontext, void *, void *, void *))places[0];
    int (*delete)(CUcontext, void *) = (int (*)(CUcontext, void *))places[1];
    int (*get)(void **, CUcontext, void *) = (int (*)(void **, CUcontext, void *))places[2];
    void *value = NULL;
    ANSWERS(400, get(&value, own, &value));
    CHECK(put(NULL, &value, &own, (void *)destructor));
    CHECK(get(&value, own, &value));
    ASSERT(value == &own);
    ANSWERS(400, get(&value, primary, &value));
    CHECK(delete(own, &value));
    ANSWERS(400, get(&value, own, &value));
    ASSERT(ended[0] == NULL);
    CHECK(put(own, &value, &primary, (void *)destructor));
    CHECK(cuCtxDestroy_v2(own));
    ASSERT(ended[0] == own && ended[1] == &value && ended[2] == &primary);

    CHECK(table(&places, TABLES[5].id));
    int (*answer)(unsigned, unsigned long long, unsigned char[16]) =
        (int (*)(unsigned, unsigned long long, unsigned char[16]))places[1];
    unsigned char first[16], second[16], third[16];
    CHECK(answer(12092, 1000, first));
    CHECK(answer(12092, 1000, second));
    CHECK(answer(12092, 1001, third));
    ASSERT(!memcmp(first, second, 16) && memcmp(first, third, 16));
    CHECK(answer(12090, 1, first));
    CHECK(answer(13050, 2, second));
    CHECK(answer(13051, 2, third));
    ASSERT(!memcmp(first, second, 16) && memcmp(first, third, 16));

    /* Whoever asks for something by a number is never left with what lay there before. */
    CHECK(table(&places, TABLES[6].id));
    int (*belonging)(CUcontext, uint64_t, void **) = (int (*)(CUcontext, uint64_t, void **))places[51];
    int (*number)(CUcontext, void *, uint64_t *) = (int (*)(CUcontext, void *, uint64_t *))places[39];
    void *found = NULL;
    uint64_t its = 7;
    ANSWERS(1, belonging(primary, 0, NULL));
    ANSWERS(400, belonging(primary, UINT64_MAX, &found));
    CHECK(belonging(primary, 0, &found));
    ASSERT(found != NULL);
    ANSWERS(1, number(primary, NULL, &its));
    ANSWERS(1, number(primary, found, NULL));
    CHECK(number(primary, found, &its));
    ASSERT(its == 0);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "off"))
        off();
    else if (!strcmp(part, "on"))
        on();
    else
        return 2;
    printf("%s: well\n", part);
    return 0;
}
