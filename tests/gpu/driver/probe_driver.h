// `probe driver`: what the driver says of the device, of occupancy, of functions, and of wrong calls.
#ifndef WARPLOOM_PROBE_DRIVER_H
#define WARPLOOM_PROBE_DRIVER_H

#include "probe_errors.h"

#include <stdarg.h>

#define ERRORS_MOST 200

// What the children found out: the object's text so far, and the codes of wrong calls.
static struct found {
    char text[1 << 17];
    int length, count;
    struct {
        const char *volatile call;
        volatile int code, ran;
        char name[56];
    } errors[ERRORS_MOST];
} *found;

static __attribute__((format(printf, 1, 2))) void put(const char *format, ...) {
    va_list values;
    va_start(values, format);
    int room = (int)sizeof found->text - found->length;
    int wrote = vsnprintf(found->text + found->length, room, format, values);
    found->length += wrote < room ? wrote : room - 1;
    va_end(values);
}

// A kernel with so many values alive over a barrier: that many registers and some more.
struct shape {
    const char *name, *directives;
    int alive, shared;
};
static const struct shape SHAPES[] = {{"alive_16", "", 16, 0},
                                      {"alive_40_shared_8k", "", 40, 8192},
                                      {"alive_96_of_64", ".maxnreg 64", 96, 0},
                                      {"alive_200", "", 200, 0}};
#define SHAPE_COUNT 4
static const int BLOCKS[] = {32, 96, 256, 512, 1024};
static const int DYNAMIC[] = {0, 16 << 10, 100 << 10};

static char *shape_ptx(const struct shape *it) {
    char *text = malloc(65536), *end = text;
    end += sprintf(end,
                   ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
                   ".visible .entry %s(.param .u64 out) %s {\n .reg .u64 %%o; .reg .f32 %%x, %%f<%d>; .reg .u32 %%t;\n",
                   it->name, it->directives, it->alive);
    if (it->shared) end += sprintf(end, " .shared .align 16 .b8 own[%d];\n", it->shared);
    end += sprintf(end, " ld.param.u64 %%o, [out];\n");
    for (int i = 0; i < it->alive; i++) end += sprintf(end, " ld.volatile.global.f32 %%f%d, [%%o+%d];\n", i, i * 4);
    if (it->shared) end += sprintf(end, " mov.u32 %%t, %%tid.x; st.volatile.shared.u32 [own+4], %%t;\n");
    end += sprintf(end, " bar.sync 0;\n ld.volatile.global.f32 %%x, [%%o];\n");
    for (int i = 0; i < it->alive; i++) end += sprintf(end, " fma.rn.f32 %%x, %%x, %%x, %%f%d;\n", i);
    sprintf(end, " st.volatile.global.f32 [%%o], %%x;\n ret;\n}\n");
    return text;
}

static void put_attributes(void) {
    int value, first = 1;
    put("\"attributes\": {");
    for (int number = 1; number <= 160; number++)
        if (!CODE(cuDeviceGetAttribute, &value, number, 0)) {
            put("%s\"%d\": %d", first ? "" : ", ", number, value);
            first = 0;
        }
    put("}, \"limits\": {");
    first = 1;
    for (int number = 0; number < 12; number++) {
        size_t bytes;
        if (!CODE(cuCtxGetLimit, &bytes, number)) {
            put("%s\"%d\": %zu", first ? "" : ", ", number, bytes);
            first = 0;
        }
    }
    put("}, ");
}

static void put_device(void) {
    int version = 0;
    char name[128] = "";
    size_t bytes = 0;
    CODE(cuDriverGetVersion, &version);
    CODE(cuDeviceGetName, name, 127, 0);
    CODE(cuDeviceTotalMem_v2, &bytes, 0);
    put("\"driver_version\": %d, \"name\": \"%s\", \"total_memory\": %zu, ", version, name, bytes);
}

static void put_occupancies(const CUhandle *functions) {
    put("\"occupancies\": [");
    for (int i = 0, first = 1; i < SHAPE_COUNT; i++) {
        int registers = 0, shared = 0;
        CODE(cuFuncGetAttribute, &registers, 4, functions[i]);
        CODE(cuFuncGetAttribute, &shared, 1, functions[i]);
        CODE(cuFuncSetAttribute, functions[i], 8, DYNAMIC[2]);
        for (int block = 0; block < 5; block++)
            for (int dynamic = 0; dynamic < 3; dynamic++, first = 0) {
                int blocks = -1;
                int code = CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, functions[i], BLOCKS[block],
                                (size_t)DYNAMIC[dynamic]);
                put("%s{\"kernel\": \"%s\", \"block\": %d, \"dynamic\": %d, \"registers\": %d, \"shared\": %d, ",
                    first ? "" : ", ", SHAPES[i].name, BLOCKS[block], DYNAMIC[dynamic], registers, shared);
                put("\"blocks\": %d, \"code\": %d}", code ? -1 : blocks, code);
            }
    }
    put("], ");
}

static void put_functions(const CUhandle *functions) {
    put("\"function_attributes\": {");
    for (int i = 0; i < SHAPE_COUNT; i++) {
        int value, first = 1;
        put("%s\"%s\": {", i ? ", " : "", SHAPES[i].name);
        for (int number = 0; number < 20; number++)
            if (!CODE(cuFuncGetAttribute, &value, number, functions[i])) {
                put("%s\"%d\": %d", first ? "" : ", ", number, value);
                first = 0;
            }
        put("}");
    }
    put("}, ");
}

// Runs in a child: the part of the object that makes no errors.
static void describe(int unused) {
    (void)unused;
    CUhandle functions[SHAPE_COUNT];
    open_probe();
    child_begins(0);
    if (ATTEMPT()) {
        fprintf(stderr, "probe: %s\n", reason);
        exit(1);
    }
    found->length = 0;
    for (int i = 0; i < SHAPE_COUNT; i++) functions[i] = function_of(loaded(shape_ptx(&SHAPES[i])), SHAPES[i].name);
    put_attributes();
    put_device();
    // Before functions opt in to more shared memory.
    put_functions(functions);
    put_occupancies(functions);
    exit(0);
}

static int describe_lost(int at, const char *why) {
    (void)at;
    fprintf(stderr, "probe: the device cannot be described: %s\n", why);
    exit(1);
}

// Makes a wrong call by its number; its text is null behind the last one.
static int wrong_call(int at, const char *volatile *text) {
    static int (*const parts[])(int, const char *volatile *) = {wrong_device_call, wrong_memory_call,
                                                                wrong_module_call, wrong_order_call};
    int code = 0;
    for (int part = 0; part < 4; part++, at -= code) {
        code = parts[part](at, text);
        if (*text) break;
    }
    return code;
}

// Runs in a child: wrong calls from a number on.
static void make_errors(int first) {
    open_probe();
    if (ATTEMPT()) {
        fprintf(stderr, "probe: %s\n", reason);
        exit(1);
    }
    prepare_errors();
    for (volatile int at = first; at < ERRORS_MOST; at++) {
        child_begins(at);
        if (ATTEMPT()) continue;
        int code = wrong_call(at, &found->errors[at].call);
        if (!found->errors[at].call) break;
        found->errors[at].code = code;
        snprintf(found->errors[at].name, sizeof found->errors[at].name, "%s", code ? code_name(code) : "CUDA_SUCCESS");
        found->errors[at].ran = 1;
        // An error that stays ends this process.
        if (CODE(cuCtxSynchronize)) exit(CHILD_LOST);
    }
    exit(0);
}

static int error_lost(int at, const char *why) {
    fprintf(stderr, "probe: %s: %s\n", found->errors[at].call ? found->errors[at].call : "?", why);
    return at + 1;
}

// Prints what `probe driver` would tell, without the values.
static void list_driver(void) {
    only_texts = 1;
    for (int i = 0; i < SHAPE_COUNT; i++)
        for (int block = 0; block < 5; block++)
            for (int dynamic = 0; dynamic < 3; dynamic++)
                printf("{\"kernel\": \"%s\", \"block\": %d, \"dynamic\": %d}\n", SHAPES[i].name, BLOCKS[block],
                       DYNAMIC[dynamic]);
    for (int at = 0;; at++) {
        const char *volatile text = NULL;
        wrong_call(at, &text);
        if (!text) return;
        printf("{\"error\": \"%s\"}\n", text);
    }
}

static int tell_driver(void) {
    found = shared_memory(sizeof *found);
    int ended = run_in_children(1, describe, describe_lost);
    if (!ended) ended = run_in_children(ERRORS_MOST, make_errors, error_lost);
    if (ended) return ended;
    printf("{%s\"errors\": [", found->text);
    for (int at = 0; at < ERRORS_MOST && found->errors[at].call; at++) {
        printf("%s{\"call\": \"%s\", ", at ? ", " : "", found->errors[at].call);
        if (found->errors[at].ran)
            printf("\"code\": %d, \"name\": \"%s\"}", found->errors[at].code, found->errors[at].name);
        else
            printf("\"code\": null, \"name\": null}");
    }
    puts("]}");
    return 0;
}

#endif
