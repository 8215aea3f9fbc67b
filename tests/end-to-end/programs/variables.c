/* What CUDA's own environment variables change, one part for each argument. */
#include "driver.h"

enum { NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, EAGER = 1, LAZY = 2 };

int cuDriverGetVersion(int *);
int cuDeviceGetUuid_v2(unsigned char *, int);

/* Reads where nothing is. */
static const char *ASTRAY = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .entry astray() {\n  .reg .b32 %r;\n  .reg .b64 %a;\n"
                            "  mov.u64 %a, 64;\n  ld.global.u32 %r, [%a];\n"
                            "  st.global.u32 [%a], %r;\n  ret;\n}\n";

static void hidden(void) {
    int count = 7;
    ANSWERS(NO_DEVICE, cuInit(0));
    ASSERT(cuDeviceGetCount(&count) != 0);
}

/* The devices' UUIDs in the order in which they are numbered, a line each. */
static void uuids(void) {
    int count;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    for (int device = 0; device < count; device++) {
        unsigned char id[16];
        CHECK(cuDeviceGetUuid_v2(id, device));
        printf("GPU-");
        for (int i = 0; i < 16; i++) {
            printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
        }
        printf("\n");
    }
}

/* The version of the driver, which does not change when the program opens its session. */
static void version(void) {
    int before = 0, after = 0;
    CHECK(cuDriverGetVersion(&before));
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&after));
    ASSERT(before == after);
    printf("%d\n", after);
}

static void mode(int wanted) {
    int loading = 0;
    CHECK(cuInit(0));
    CHECK(cuModuleGetLoadingMode(&loading));
    ASSERT(loading == wanted);
}

/* Who learns of a kernel's failure: its launch, or only who waits for it. */
static void astray(int launch) {
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, ASTRAY));
    CHECK(cuModuleGetFunction(&function, module, "astray"));
    ANSWERS(launch, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ANSWERS(ILLEGAL_ADDRESS, cuCtxSynchronize());
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    if (!strcmp(part, "hidden")) {
        hidden();
    } else if (!strcmp(part, "uuids")) {
        uuids();
        return 0;
    } else if (!strcmp(part, "version")) {
        version();
        return 0;
    } else if (!strcmp(part, "eager")) {
        mode(EAGER);
    } else if (!strcmp(part, "lazy")) {
        mode(LAZY);
    } else if (!strcmp(part, "blocking")) {
        astray(ILLEGAL_ADDRESS);
    } else if (!strcmp(part, "running on")) {
        astray(0);
    } else {
        fprintf(stderr, "which part?\n");
        return 2;
    }
    printf("%s: well\n", part);
    return 0;
}
