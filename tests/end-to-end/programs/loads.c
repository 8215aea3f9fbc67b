/* Loads the driver at run time, a hundred times, as plug-ins do; nothing is linked. */
#include "driver.h"

#include <dlfcn.h>

typedef int (*Call)();

static Call find(void *library, const char *name) {
    Call found = (Call)dlsym(library, name);
    ASSERT(found);
    return found;
}
#define cuGetErrorString(status, text) (*(text) = "")

/* A number of /proc/self/status. */
static long status_of(const char *key) {
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) {
        if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
    }
    fclose(status);
    return value;
}

static int mappings(void) {
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) count += strstr(line, "libcuda.so") != NULL;
    fclose(maps);
    return count;
}

/* Sets memory and looks at it. */
static void works(void *library, CUdeviceptr memory, unsigned char value) {
    unsigned char got[64];
    CHECK(find(library, "cuMemsetD8_v2")(memory, value, sizeof got));
    CHECK(find(library, "cuMemcpyDtoH_v2")(got, memory, sizeof got));
    for (size_t at = 0; at < sizeof got; at++) ASSERT(got[at] == value);
}

int main(void) {
    CUdeviceptr memory = 0;
    CUcontext context;
    int mapped = 0;
    long threads = 0, kilobytes = 0;
    for (int at = 0; at < 100; at++) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | (at % 2 ? RTLD_LOCAL : RTLD_GLOBAL));
        if (!library) fprintf(stderr, "%s\n", dlerror());
        ASSERT(library);
        if (at == 0) {
            CHECK(find(library, "cuInit")(0));
            CHECK(find(library, "cuCtxCreate_v2")(&context, 0, 0));
            CHECK(find(library, "cuMemAlloc_v2")(&memory, (size_t)64));
        }
        if (at % 10 == 0) works(library, memory, at);
        ASSERT(!dlclose(library));
        if (at == 50) {
            mapped = mappings();
            threads = status_of("Threads:");
            kilobytes = status_of("VmRSS:");
        }
    }
    ASSERT(mapped > 0 && mappings() == mapped);
    ASSERT(status_of("Threads:") <= threads);
    ASSERT(status_of("VmRSS:") <= kilobytes + 1024);
    printf("loaded and unloaded\n");
    return 0;
}
