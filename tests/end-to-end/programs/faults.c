/* What a program sees when something around it fails: one part for each argument. */
#include "driver.h"

#include <unistd.h>

enum { OUT_OF_MEMORY = 2, DEVICE_UNAVAILABLE = 46, LAUNCH_TIMEOUT = 702, N = 1000, MEBIBYTE = 1 << 20 };

/* Adds 1 to each of `count` words. */
static const char *INCREMENT = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry increment(.param .u64 words, .param .u32 count) {\n"
                               "  .reg .pred %p;\n  .reg .b32 %r<7>;\n  .reg .b64 %a<4>;\n"
                               "  ld.param.u64 %a1, [words];\n  cvta.to.global.u64 %a1, %a1;\n"
                               "  ld.param.u32 %r2, [count];\n"
                               "  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %ntid.x;\n"
                               "  mov.u32 %r5, %ctaid.x;\n  mad.lo.u32 %r3, %r4, %r5, %r3;\n"
                               "  setp.ge.u32 %p, %r3, %r2;\n  @%p ret;\n"
                               "  mul.wide.u32 %a2, %r3, 4;\n  add.u64 %a1, %a1, %a2;\n"
                               "  ld.global.u32 %r6, [%a1];\n  add.u32 %r6, %r6, 1;\n"
                               "  st.global.u32 [%a1], %r6;\n  ret;\n}\n";

/* Waits until the first word is not 0. */
static const char *AWAIT = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry await(.param .u64 words) {\n"
                           "  .reg .pred %p;\n  .reg .b32 %r;\n  .reg .b64 %a;\n"
                           "  ld.param.u64 %a, [words];\n  cvta.to.global.u64 %a, %a;\n"
                           "again:\n  ld.volatile.global.u32 %r, [%a];\n"
                           "  setp.eq.u32 %p, %r, 0;\n  @%p bra again;\n  ret;\n}\n";

static CUfunction increment;
static CUdeviceptr words;
static CUevent event;
static unsigned host[N], big[64 << 10];

static void begin(void) {
    CUcontext context;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, INCREMENT));
    CHECK(cuModuleGetFunction(&increment, module, "increment"));
    CHECK(cuMemAlloc_v2(&words, sizeof host));
    CHECK(cuMemcpyHtoD_v2(words, host, sizeof host));
    CHECK(cuEventCreate(&event, 0));
}

static int launch(void) {
    unsigned count = N;
    void *parameters[] = {&words, &count};
    return cuLaunchKernel(increment, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL);
}

static void all(unsigned wanted) {
    CHECK(cuMemcpyDtoH_v2(host, words, sizeof host));
    for (int at = 0; at < N; at++) ASSERT(host[at] == wanted);
}

/* Works, and says so, until its input ends; then its sum must be right. Copies large enough to
   travel apart from the launches go along. */
static void works(void) {
    unsigned count = 0, round = 0;
    CUdeviceptr copy;
    fd_set readable;
    begin();
    CHECK(cuMemAlloc_v2(&copy, sizeof big));
    for (;;) {
        struct timeval now = {0, 0};
        FD_ZERO(&readable);
        FD_SET(0, &readable);
        if (select(1, &readable, NULL, NULL, &now) > 0) break;
        for (int at = 0; at < 20; at++, count++) CHECK(launch());
        big[0] = count;
        CHECK(cuMemcpyHtoD_v2(copy, big, sizeof big));
        CHECK(cuEventRecord(event, NULL));
        CHECK(cuEventSynchronize(event));
        big[0] = 0;
        CHECK(cuMemcpyDtoH_v2(big, copy, sizeof big));
        ASSERT(big[0] == count);
        printf("round %u\n", ++round);
    }
    all(count);
    printf("%u launches\n", count);
}

/* Works until its device is gone; every later call says the same, and none waits. */
static void loses(void) {
    CUdeviceptr more;
    const char *text;
    int seen = 0;
    begin();
    all(0);
    printf("works\n");
    while (!seen) {
        seen = launch();
        if (!seen) seen = cuCtxSynchronize();
    }
    ANSWERS(DEVICE_UNAVAILABLE, seen);
    ANSWERS(DEVICE_UNAVAILABLE, cuCtxSynchronize());
    ANSWERS(DEVICE_UNAVAILABLE, launch());
    ANSWERS(DEVICE_UNAVAILABLE, cuMemAlloc_v2(&more, 4));
    ANSWERS(DEVICE_UNAVAILABLE, cuMemFree_v2(words));
    ANSWERS(DEVICE_UNAVAILABLE, cuMemcpyHtoD_v2(words, host, sizeof host));
    ANSWERS(DEVICE_UNAVAILABLE, cuMemcpyDtoH_v2(host, words, sizeof host));
    ANSWERS(DEVICE_UNAVAILABLE, cuEventRecord(event, NULL));
    CHECK(cuGetErrorString(DEVICE_UNAVAILABLE, &text));
    ASSERT(strstr(text, "E-DEVICE-LOST"));
    printf("lost\n");
}

/* Asks for more than its quota of 64 MiB. */
static void asks(void) {
    CUdeviceptr chunk[16], more;
    size_t available, total;
    int count = 0, seen;
    begin();
    ANSWERS(OUT_OF_MEMORY, cuMemAlloc_v2(&more, (size_t)1 << 40));
    ANSWERS(OUT_OF_MEMORY, cuMemAllocManaged(&more, (size_t)1 << 40, 1));
    while (!(seen = cuMemAlloc_v2(chunk + count, 8 * MEBIBYTE))) ASSERT(++count < 16);
    ANSWERS(OUT_OF_MEMORY, seen);
    ASSERT(count == 7);
    CHECK(cuMemGetInfo_v2(&available, &total));
    ASSERT(total == 64 * MEBIBYTE && available < 8 * MEBIBYTE);
    ANSWERS(OUT_OF_MEMORY, cuMemAllocManaged(&more, 8 * MEBIBYTE, 1));
    CHECK(launch());
    all(1);
    CHECK(cuMemFree_v2(chunk[0]));
    CHECK(cuMemAlloc_v2(&more, 8 * MEBIBYTE));
    CHECK(cuMemsetD8_v2(more, 7, 8 * MEBIBYTE));
    CHECK(launch());
    all(2);
    printf("as much as it may\n");
}

/* Ends with work in flight, when its input does. */
static void ends(void) {
    char byte;
    begin();
    all(0);
    printf("works\n");
    ASSERT(read(0, &byte, 1) == 0);
    for (int at = 0; at < 500; at++) CHECK(launch());
    printf("ends\n");
}

/* A kernel waits for one of another stream: the watchdog ends it, and says why it had to. */
static void meets(void) {
    CUmodule module;
    CUfunction await;
    CUstream waiting, other;
    const char *text = "";
    unsigned count = N;
    begin();
    CHECK(cuModuleLoadData(&module, AWAIT));
    CHECK(cuModuleGetFunction(&await, module, "await"));
    CHECK(cuStreamCreate(&waiting, 1));
    CHECK(cuStreamCreate(&other, 1));
    void *address[] = {&words}, *parameters[] = {&words, &count};
    CHECK(cuLaunchKernel(await, 1, 1, 1, 1, 1, 1, 0, waiting, address, NULL));
    CHECK(cuLaunchKernel(increment, 8, 1, 1, 128, 1, 1, 0, other, parameters, NULL));
    ANSWERS(LAUNCH_TIMEOUT, cuStreamSynchronize(waiting));
    CHECK(cuGetErrorString(LAUNCH_TIMEOUT, &text));
    ASSERT(strstr(text, "`await`") && strstr(text, "worker.watchdog (2s)"));
    ASSERT(strstr(text, "a kernel of another stream"));
    printf("ended\n");
}

/* Is told that there is nobody, and what to do. */
static void alone(void) {
    const char *text = "";
    int status = cuInit(0);
    cuGetErrorString(status, &text);
    printf("%d %s\n", status, text);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"works", works}, {"loses", loses}, {"asks", asks}, {"ends", ends}, {"alone", alone},
        {"meets", meets},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        return 0;
    }
    return 2;
}
