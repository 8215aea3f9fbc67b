/* Images in their containers and kernels of a whole grid, one part for each argument. */
#include "driver.h"

enum {
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    LAUNCH_TOO_LARGE = 720,
    BLOCKS = 6,
};

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* Stores its constant. */
static const char *STORE = HEAD ".visible .entry store(.param .u64 to) {\n"
                                "  .reg .b64 %a;\n  ld.param.u64 %a, [to];\n"
                                "  st.global.u32 [%a], VALUE;\n  ret;\n}\n";

/* Each block adds 1 to a word, waits for the others, and stores what it finds there. */
static const char *GRID =
    HEAD ".extern .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(.param .b32 p);\n"
         ".extern .func (.param .b32 func_retval0) cudaCGSynchronize(.param .b64 p,"
         " .param .b32 q);\n"
         ".visible .entry meet(.param .u64 words) {\n"
         "  .reg .b64 %a<3>; .reg .b32 %r<2>; .reg .b64 %grid;\n"
         "  .param .b32 scope; .param .b64 handle; .param .b32 flags; .param .b32 status;\n"
         "  ld.param.u64 %a1, [words];\n  red.global.add.u32 [%a1], 1;\n"
         "  st.param.b32 [scope], 1;\n"
         "  call (handle), cudaCGGetIntrinsicHandle, (scope);\n  ld.param.b64 %grid, [handle];\n"
         "  st.param.b64 [handle], %grid;\n  st.param.b32 [flags], 0;\n"
         "  call (status), cudaCGSynchronize, (handle, flags);\n"
         "  ld.volatile.global.u32 %r1, [%a1];\n"
         "  mov.u32 %r0, %ctaid.x;\n  mul.wide.u32 %a2, %r0, 4;\n  add.u64 %a1, %a1, %a2;\n"
         "  st.global.u32 [%a1+4], %r1;\n  ret;\n}\n";

static CUdeviceptr words;

static void begin(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&words, 256));
    CHECK(cuMemsetD8_v2(words, 0, 256));
}

/* Appends a program to a container: PTX is kind 1, machine code kind 2. */
static void append(char *container, unsigned kind, unsigned architecture, const char *payload) {
    uint64_t size, padded = (strlen(payload) + 8) / 8 * 8;
    memcpy(&size, container + 8, 8);
    char *entry = container + 16 + size;
    memset(entry, 0, 64 + padded);
    memcpy(entry, (uint16_t[]){kind, 0x101}, 4);
    memcpy(entry + 4, (uint32_t[]){64}, 4);
    memcpy(entry + 8, &padded, 8);
    memcpy(entry + 28, &architecture, 4);
    strcpy(entry + 64, payload);
    size += 64 + padded;
    memcpy(container + 8, &size, 8);
}

/* The kernel that stores a value of two digits. */
static const char *storing(const char *value) {
    static char text[512];
    strcpy(text, STORE);
    memcpy(strstr(text, "VALUE"), value, 2);
    memset(strstr(text, "LUE"), ' ', 3);
    return text;
}

static void fatbins(void) {
    static uint64_t room[512], none[64];
    char *container = (char *)room, log[256];
    struct {
        uint32_t magic, version;
        void *data, *more;
    } wrapper = {0x466243b1, 1, container, NULL};
    const uint32_t header[] = {0xba55ed50, 0x00100001};
    int keys[] = {5, 6};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    CUlibrary library;
    CUfunction store;
    unsigned got = 0;
    begin();
    memcpy(container, header, sizeof header);
    append(container, 2, 80, "\177ELF and so on");
    append(container, 1, 52, storing("11"));
    append(container, 1, 75, storing("22"));
    append(container, 1, 90, storing("33"));
    const void *images[] = {&wrapper, container};
    for (int at = 0; at < 2; at++) {
        CHECK(cuModuleLoadData(&module, images[at]));
        CHECK(cuModuleGetFunction(&store, module, "store"));
        /* The architecture that the kernel was made for: libraries choose among theirs by it. */
        int made_for = 0;
        CHECK(cuFuncGetAttribute(&made_for, 5, store));
        ASSERT(made_for == 70);
        void *parameters[] = {&words};
        CHECK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuMemcpyDtoH_v2(&got, words, 4));
        ASSERT(got == 22);
        CHECK(cuModuleUnload(module));
        CHECK(cuMemsetD8_v2(words, 0, 4));
    }
    CHECK(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    memcpy(none, header, sizeof header);
    append((char *)none, 2, 75, "\177ELF and so on");
    const char *why = NULL;
    CHECK(cuModuleLoadDataEx(&module, none, 2, keys, values));
    ANSWERS(NO_BINARY_FOR_GPU, cuModuleGetFunction(&store, module, "store"));
    CHECK(cuGetErrorString(NO_BINARY_FOR_GPU, &why));
    ASSERT(strstr(why, "store of ") && strstr(why, "machine code for sm_75 only"));
    CHECK(cuModuleUnload(module));
    ((char *)none)[16 + 8] = 1;
    ANSWERS(INVALID_IMAGE, cuModuleLoadData(&module, none));
    CHECK(cuModuleLoadData(&module, "\177ELF"));
    ANSWERS(NO_BINARY_FOR_GPU, cuModuleGetFunction(&store, module, "store"));
    CHECK(cuGetErrorString(NO_BINARY_FOR_GPU, &why));
    ASSERT(strstr(why, "it is machine code of a GPU"));
}

/* A large image is taken apart: each kernel comes with what it needs, those that share a variable come
 * together, and what is wrong with one is no matter to the others. */
static void large(void) {
    enum { KERNELS = 400, ROOM = 400 * 1024 };
    static const char *COUNT = ".visible .entry count%d(.param .u64 to) {\n"
                               "  .reg .b32 %%r;\n"
                               "  atom.global.add.u32 %%r, [counter], %d;\n  ret;\n}\n";
    char *text = malloc(ROOM), name[32];
    char *at = text + sprintf(text, HEAD ".visible .global .align 4 .u32 counter = 5;\n");
    const char *why = NULL, *got_name = NULL;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        at += sprintf(at, "// %0200d\n.visible .entry store%d(.param .u64 to) {\n  .reg .b64 %%a;\n"
                          "  ld.param.u64 %%a, [to];\n  st.global.u32 [%%a], %d;\n  ret;\n}\n",
                      kernel, kernel, 1000 + kernel);
    at += sprintf(at, COUNT, 1, 1);
    at += sprintf(at, COUNT, 2, 10);
    int line = 1;
    for (const char *c = text; c < at; c++) line += *c == '\n';
    at += sprintf(at, ".visible .entry wrong() {\n  ld.u32 [[;\n}\n");
    uint64_t *room = malloc(ROOM + 4096);
    const uint32_t header[] = {0xba55ed50, 0x00100001, 0, 0};
    memcpy(room, header, sizeof header);
    append((char *)room, 1, 70, text);
    CUmodule module;
    CUfunction function, all[KERNELS + 4];
    CUdeviceptr counter = 0;
    size_t bytes = 0;
    unsigned got = 0, count = 0;
    begin();
    CHECK(cuModuleLoadData(&module, room));
    void *parameters[] = {&words};
    for (int kernel = 0; kernel < KERNELS; kernel += 133) {
        sprintf(name, "store%d", kernel);
        CHECK(cuModuleGetFunction(&function, module, name));
        CHECK(cuFuncGetName(&got_name, function));
        ASSERT(!strcmp(got_name, name));
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuMemcpyDtoH_v2(&got, words, 4));
        ASSERT(got == 1000 + (unsigned)kernel);
    }
    for (int by = 1; by <= 2; by++) {
        sprintf(name, "count%d", by);
        CHECK(cuModuleGetFunction(&function, module, name));
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    }
    CHECK(cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"));
    CHECK(cuMemcpyDtoH_v2(&got, counter, 4));
    ASSERT(bytes == 4 && got == 5 + 1 + 10);
    ANSWERS(INVALID_PTX, cuModuleGetFunction(&function, module, "wrong"));
    CHECK(cuGetErrorString(INVALID_PTX, &why));
    sprintf(name, "line %d", line + 1);
    ASSERT(strstr(why, name));
    ANSWERS(500, cuModuleGetFunction(&function, module, "nobody"));
    CHECK(cuModuleGetFunctionCount(&count, module));
    ASSERT(count == KERNELS + 3);
    CHECK(cuModuleEnumerateFunctions(all, KERNELS + 2, module));
    CHECK(cuFuncGetName(&got_name, all[KERNELS + 1]));
    ASSERT(!strcmp(got_name, "count2"));
    CHECK(cuModuleUnload(module));
    ANSWERS(400, cuModuleGetFunction(&function, module, "store1"));
}

static void *linked(CUlink link, const char *first, const char *second, int wanted) {
    void *image = NULL;
    size_t size;
    CHECK(cuLinkAddData_v2(link, 1, (void *)first, strlen(first) + 1, "first", 0, NULL, NULL));
    if (second)
        CHECK(cuLinkAddData_v2(link, 1, (void *)second, strlen(second) + 1, "second", 0, NULL,
                               NULL));
    ANSWERS(wanted, cuLinkComplete(link, &image, &size));
    return image;
}

static void links(void) {
    char log[256];
    int keys[] = {5, 6};
    void *values[] = {log, (void *)sizeof log};
    static const struct {
        const char *first, *second;
        int answer;
        const char *log;
    } cases[] = {
        {HEAD ".visible .func f() { ret; }", HEAD ".visible .func f() { ret; }",
         NO_BINARY_FOR_GPU, "`f` is defined twice"},
        {HEAD ".extern .func g();\n.visible .entry k() { call g; ret; }", NULL,
         NO_BINARY_FOR_GPU, "`g` is used here and defined in no image"},
        {HEAD ".visible .entry k() { ret; }", HEAD ".bogus", INVALID_PTX, "line 4"},
        {HEAD ".visible .entry k() {\n frobnicate;\n}", NULL, INVALID_PTX, "frobnicate"},
    };
    begin();
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        CUlink link;
        values[1] = (void *)sizeof log;
        CHECK(cuLinkCreate_v2(2, keys, values, &link));
        linked(link, cases[at].first, cases[at].second, cases[at].answer);
        ASSERT(strstr(log, cases[at].log));
        CHECK(cuLinkDestroy(link));
    }
}

static void grids(void) {
    CUlink link;
    CUmodule module;
    CUfunction meet;
    unsigned got[1 + BLOCKS];
    int can = 0, each = 0, devices = 0;
    begin();
    CHECK(cuDeviceGetAttribute(&can, 95, 0));
    ASSERT(can == 1);
    CHECK(cuDeviceGetAttribute(&devices, 16, 0));
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &link));
    CHECK(cuModuleLoadData(&module, linked(link, GRID, NULL, 0)));
    CHECK(cuModuleGetFunction(&meet, module, "meet"));
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, meet, 1, 0));
    ASSERT(each > 0);
    /* What runs at once is the machine's, whatever the device says of itself. */
    ANSWERS(LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(meet, 64 * 256 + 1, 1, 1, 1, 1, 1, 0, NULL,
                                                        (void *[]){&words}));
    void *parameters[] = {&words};
    CHECK(cuLaunchCooperativeKernel(meet, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, parameters));
    ANSWERS(LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(meet, each * devices + 1, 1, 1, 1, 1, 1, 0,
                                                        NULL, parameters));
    CHECK(cuMemcpyDtoH_v2(got, words, sizeof got));
    for (int at = 0; at <= BLOCKS; at++) ASSERT(got[at] == BLOCKS);
    /* As many as the occupancy names on every multiprocessor, as programs ask for. */
    unsigned all = each * devices, last = 0;
    CUdeviceptr many;
    CHECK(cuMemAlloc_v2(&many, 4 * (1 + all)));
    CHECK(cuMemsetD8_v2(many, 0, 4 * (1 + all)));
    CHECK(cuLaunchCooperativeKernel(meet, all, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&many}));
    CHECK(cuMemcpyDtoH_v2(&last, many + 4 * all, 4));
    ASSERT(last == all);
    CHECK(cuMemFree_v2(many));
}

/* An image one kernel of which cannot run: the others do, and it fails at its launch, by name. */
static void mixed(void) {
    static const char *both = HEAD ".visible .entry good(.param .u64 to) {\n"
                                   "  .reg .b64 %a;\n  ld.param.u64 %a, [to];\n"
                                   "  st.global.u32 [%a], 7;\n  ret;\n}\n"
                                   ".visible .entry bad(.param .u64 to) {\n"
                                   "  .reg .b32 %r<2>;\n  frobnicate.b32 %r1, %r0;\n  ret;\n}\n";
    CUmodule module;
    CUlibrary library;
    CUfunction good, bad;
    const char *why;
    unsigned word = 0;
    void *params[] = {&words};
    begin();
    CHECK(cuModuleLoadData(&module, both));
    CHECK(cuModuleGetFunction(&bad, module, "bad"));
    CHECK(cuModuleGetFunction(&good, module, "good"));
    for (int round = 0; round < 2; round++) {
        ANSWERS(INVALID_PTX, cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        CHECK(cuGetErrorString(INVALID_PTX, &why));
        ASSERT(strstr(why, "frobnicate") && strstr(why, "line 12"));
        CHECK(cuMemsetD8_v2(words, 0, 4));
        CHECK(cuLaunchKernel(good, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        CHECK(cuMemcpyDtoH_v2(&word, words, sizeof word));
        ASSERT(word == 7);
    }
    /* A library is loaded when it is used first. */
    CHECK(cuLibraryLoadData(&library, both, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&bad, library, "bad"));
    CHECK(cuLibraryGetKernel(&good, library, "good"));
    CHECK(cuMemsetD8_v2(words, 0, 4));
    CHECK(cuLaunchKernel(good, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ANSWERS(INVALID_PTX, cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(&word, words, sizeof word));
    ASSERT(word == 7);
    CHECK(cuModuleUnload(module));
    /* Kernels of one variable stay together; an image of one kernel is refused when it is loaded. */
    CHECK(cuModuleLoadData(&module, HEAD ".visible .global .u32 common;\n"
                                         ".visible .entry good() { st.global.u32 [common], 7; ret; }\n"
                                         ".visible .entry bad() { frobnicate.b32 common; ret; }\n"));
    CHECK(cuModuleGetFunction(&good, module, "good"));
    ANSWERS(INVALID_PTX, cuLaunchKernel(good, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuModuleUnload(module));
    ANSWERS(INVALID_PTX, cuModuleLoadData(&module, HEAD ".visible .entry bad() { frobnicate; ret; }\n"));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"fatbins", fatbins}, {"large", large}, {"links", links}, {"grids", grids}, {"mixed", mixed}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
