/* Every export that is a variant of another (`_v2`, `_ptsz`, ...), against its difference from that one. The
   tables are in variants.h; an export of the library that is in none of them ends the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include "driver.h"

#include "add.h"
#include "variants.h"

/* The effect of a call with the NULL stream while the thread's default stream is captured. */
enum Effect {
    NODE,   /* it becomes a node of the graph */
    CLOSED, /* it is refused, and the capture is invalid */
    JOINS,  /* it notes the event: another stream that waits for it takes part in the capture */
    SEES,   /* it tells of the capture */
    SAME,   /* its answer is that of the thread's default stream */
    BEGINS, /* it begins the capture */
    ENDS    /* it ends the capture */
};
enum { CAPTURED = 900, INVALIDATED = 901 };

typedef struct {
    const char *name;
    enum Effect effect;
    int (*call)(Any);
} ThreadRow;
typedef struct {
    const char *name, *base;
    int (*call)(Any, Any);
} VersionRow;

#define CALL(name, effect, ...)                                                                    \
    static int call_##name(Any f) { return __VA_ARGS__; }
#define ROW(name, effect, ...) {#name, effect, call_##name},
THREAD(CALL)
static const ThreadRow THREAD_ROWS[] = {THREAD(ROW)};

#define VERSION_CALL(name, base, ...)                                                              \
    static int call_##name(Any f, Any old) {                                                       \
        (void)old;                                                                                 \
        return __VA_ARGS__;                                                                        \
    }
#define VERSION_ROW(name, base, ...) {#name, #base, call_##name},
VERSIONS(VERSION_CALL)
static const VersionRow VERSION_ROWS[] = {VERSIONS(VERSION_ROW)};

#define NAME(name) #name,
static const char *REFUSED_ROWS[] = {REFUSED(NAME)};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static int ends(const char *name, const char *end) {
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

/* Whether the name of an export says that it is a variant. */
static int is_variant(const char *name) {
    size_t last = strlen(name) - 1;
    if (strncmp(name, "cu", 2) != 0)
        return 0;
    if (ends(name, "_ptsz") || ends(name, "_ptds"))
        return 1;
    return last > 2 && name[last] >= '0' && name[last] <= '9' && name[last - 1] == 'v' &&
           name[last - 2] == '_';
}

static int rows_of(const char *name) {
    int found = 0;
    for (size_t at = 0; at < COUNT(THREAD_ROWS); at++)
        found += strcmp(THREAD_ROWS[at].name, name) == 0;
    for (size_t at = 0; at < COUNT(VERSION_ROWS); at++)
        found += strcmp(VERSION_ROWS[at].name, name) == 0;
    for (size_t at = 0; at < COUNT(REFUSED_ROWS); at++)
        found += strcmp(REFUSED_ROWS[at], name) == 0;
    return found;
}

/* Compares the library's own table of exported names with the tables here. */
static void complete(void) {
    Dl_info info;
    ASSERT(dladdr(dlsym(RTLD_DEFAULT, "cuInit"), &info) != 0);
    FILE *file = fopen(info.dli_fname, "rb");
    ASSERT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t length = (size_t)ftell(file), seen = 0;
    unsigned char *bytes = malloc(length);
    ASSERT(bytes != NULL && fseek(file, 0, SEEK_SET) == 0);
    ASSERT(fread(bytes, 1, length, file) == length && fclose(file) == 0);
    const ElfW(Ehdr) *head = (void *)bytes;
    const ElfW(Shdr) *sections = (void *)(bytes + head->e_shoff);
    for (int at = 0; at < head->e_shnum; at++) {
        if (sections[at].sh_type != SHT_DYNSYM)
            continue;
        const ElfW(Sym) *symbols = (void *)(bytes + sections[at].sh_offset);
        const char *names = (char *)bytes + sections[sections[at].sh_link].sh_offset;
        for (size_t of = 0; of < sections[at].sh_size / sizeof *symbols; of++) {
            const char *name = names + symbols[of].st_name;
            if (symbols[of].st_shndx == SHN_UNDEF || !is_variant(name))
                continue;
            if (rows_of(name) != 1) {
                fprintf(stderr, "%s stands in %d rows of variants.h, not in one\n", name, rows_of(name));
                exit(1);
            }
            seen++;
        }
    }
    free(bytes);
    ASSERT(seen == COUNT(THREAD_ROWS) + COUNT(VERSION_ROWS) + COUNT(REFUSED_ROWS));
}

static void expect(const char *name, const char *what, long got, long wanted) {
    if (got != wanted) {
        fprintf(stderr, "%s: %s: %ld, not %ld\n", name, what, got, wanted);
        exit(1);
    }
}

/* Calls a function with the NULL stream while the thread's default stream is captured. */
static void captured(const ThreadRow *row) {
    const char *name = row->name;
    CUgraph graph = NULL;
    size_t nodes = 0;
    int state = 0;
    Any f = (Any)dlsym(RTLD_DEFAULT, name);
    if (row->effect != BEGINS)
        CHECK(cuStreamBeginCapture_v2(OWN, 0));
    expect(name, "its answer", row->call(f), row->effect == CLOSED ? CAPTURED : 0);
    if (row->effect == BEGINS) {
        CHECK(cuStreamIsCapturing(OWN, &state));
        expect(name, "whether it began", state, 1);
    }
    if (row->effect == JOINS) {
        CHECK(cuStreamWaitEvent(other, event, 0));
        CHECK(cuStreamIsCapturing(other, &state));
        expect(name, "whether another stream takes part", state, 1);
    }
    if (row->effect == ENDS) {
        CHECK(cuStreamIsCapturing(OWN, &state));
        expect(name, "whether it is captured still", state, 0);
        return;
    }
    expect(name, "the end", cuStreamEndCapture(OWN, &graph), row->effect == CLOSED ? INVALIDATED : 0);
    if (row->effect == CLOSED)
        return;
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    expect(name, "nodes", (long)nodes, row->effect == NODE);
    if (graph != borrowed)
        CHECK(cuGraphDestroy(graph));
}

/* Asks for a name by the version of this driver: the form for the thread's stream is another. */
static void found(const char *name) {
    char base[64];
    void *thread = NULL, *legacy = NULL;
    int why = 0, version = 0;
    snprintf(base, sizeof base, "%.*s", (int)strlen(name) - 5, name);
    size_t end = strlen(base);
    if (base[end - 3] == '_' && base[end - 2] == 'v')
        base[end - 3] = 0;
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuGetProcAddress_v2(base, &thread, version, 2, &why));
    CHECK(cuGetProcAddress_v2(base, &legacy, version, 1, &why));
    expect(name, "whether it is found by its flag", thread != NULL && thread != legacy, 1);
}

static void *second_thread(void *unused) {
    CUgraph graph;
    int state = 1;
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    /* The default stream of another thread is another stream. */
    CHECK(cuStreamIsCapturing(OWN, &state));
    ASSERT(state == 0);
    ANSWERS(401, cuStreamEndCapture(OWN, &graph));
    CHECK(cuStreamBeginCapture_v2(OWN, 0));
    CHECK(cuMemsetD32Async(memory, 1, 4, OWN));
    CHECK(cuStreamEndCapture(OWN, &graph));
    CHECK(cuGraphDestroy(graph));
    return NULL;
}

static void threads(void) {
    CUgraph graph;
    pthread_t thread;
    int state = 0;
    size_t nodes = 0;
    CHECK(cuStreamBeginCapture_v2(OWN, 0));
    ASSERT(pthread_create(&thread, NULL, second_thread, NULL) == 0);
    ASSERT(pthread_join(thread, NULL) == 0);
    CHECK(cuStreamIsCapturing(OWN, &state));
    ASSERT(state == 1);
    CHECK(cuStreamEndCapture(OWN, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    ASSERT(nodes == 0);
    CHECK(cuGraphDestroy(graph));
}

int main(int count, char **arguments) {
    (void)count;
    prepare();
    complete();
    for (size_t at = 0; at < COUNT(THREAD_ROWS); at++) {
        captured(&THREAD_ROWS[at]);
        found(THREAD_ROWS[at].name);
    }
    threads();
    for (size_t at = 0; at < COUNT(VERSION_ROWS); at++) {
        const VersionRow *row = &VERSION_ROWS[at];
        Any f = (Any)dlsym(RTLD_DEFAULT, row->name), old = (Any)dlsym(RTLD_DEFAULT, row->base);
        expect(row->name, "whether it and its base are there", f != NULL && old != NULL, 1);
        expect(row->name, "whether its difference holds", row->call(f, old), 1);
    }
    for (size_t at = 0; at < COUNT(REFUSED_ROWS); at++)
        expect(REFUSED_ROWS[at], "its answer", ((Any)dlsym(RTLD_DEFAULT, REFUSED_ROWS[at]))(), 801);
    printf("%s: well\n", arguments[1]);
    return 0;
}
