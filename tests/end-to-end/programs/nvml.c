/* NVML as a C program finds it: loaded by name, one part of the program after the other. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum { UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, SMALL = 7, NO_DRIVER = 9, VERSION = 25 };
enum { MIB = 1 << 20 };

typedef void *Device;
typedef struct {
    unsigned long long total, free, used;
} Memory;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory2;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu, compute;
} Process;

static void *library;

/* A function of any arguments, by its name. */
static int (*find(const char *name))() {
    int (*found)() = (int (*)())dlsym(library, name);
    if (found == NULL) {
        printf("%s is missing\n", name);
        exit(1);
    }
    return found;
}

#define CALL(name, ...) find(#name)(__VA_ARGS__)
#define IS(wanted, call)                                                                   \
    do {                                                                                   \
        int got = (call);                                                                  \
        if (got != (wanted)) {                                                             \
            printf("line %d: %s is %d, not %d\n", __LINE__, #call, got, wanted);           \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)
#define SAME(a, b)                                                                         \
    do {                                                                                   \
        unsigned long long left = (a), right = (b);                                        \
        if (left != right) {                                                               \
            printf("line %d: %s is %llu, %s is %llu\n", __LINE__, #a, left, #b, right);    \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static Device first(void) {
    Device device = NULL;
    IS(0, CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device));
    return device;
}

/* What NVML says must be what CUDA said: at once, or as soon as the worker has heard of it. */
static void compare(size_t free, size_t total, unsigned pid) {
    Device device = first();
    Memory memory;
    Memory2 second = {.version = sizeof second | 2 << 24};
    for (int tries = 0; tries < 50; tries++) {
        IS(0, CALL(nvmlDeviceGetMemoryInfo, device, &memory));
        if (memory.free == free) {
            break;
        }
        usleep(100 * 1000);
    }
    SAME(memory.free, free);
    SAME(memory.total, total);
    SAME(memory.used, 24 * MIB);
    IS(0, CALL(nvmlDeviceGetMemoryInfo_v2, device, &second));
    SAME(second.free, free);
    SAME(second.used + second.free + second.reserved, total);
    unsigned count = 0;
    IS(SMALL, CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, NULL));
    SAME(count, 1);
    Process process;
    IS(0, CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, &process));
    SAME(process.pid, pid);
    SAME(process.used, 24 * MIB);
    IS(0, CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, device, &count, NULL));
    SAME(count, 0);
}

/* In this process, and in another one that has no session. */
static void numbers(const char *self) {
    CUcontext context;
    CUdeviceptr made[2];
    size_t free = 0, total = 0;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&made[0], 16 * MIB));
    CHECK(cuMemAlloc_v2(&made[1], 8 * MIB));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&free, &total));
    IS(0, CALL(nvmlInit_v2));
    compare(free, total, (unsigned)getpid());
    char texts[3][32];
    snprintf(texts[0], sizeof texts[0], "%zu", free);
    snprintf(texts[1], sizeof texts[1], "%zu", total);
    snprintf(texts[2], sizeof texts[2], "%d", (int)getpid());
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "look", texts[0], texts[1], texts[2], (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    SAME(status, 0);
    /* Names are CUDA's. */
    char bus[2][32], name[2][96];
    CHECK(cuDeviceGetPCIBusId(bus[0], sizeof bus[0], 0));
    CHECK(cuDeviceGetName(name[0], sizeof name[0], 0));
    struct {
        char legacy[16];
        unsigned numbers[5];
        char bus[32];
    } place;
    IS(0, CALL(nvmlDeviceGetPciInfo_v3, first(), &place));
    IS(0, CALL(nvmlDeviceGetName, first(), name[1], 96));
    SAME(strcmp(place.legacy, bus[0]), 0);
    SAME(strcmp(name[0], name[1]), 0);
}

/* Null, buffers that are too small, handles that are none, and what is not there. */
static void wrong(void) {
    char text[4] = "abc";
    unsigned number = 0, pair[2];
    Memory2 second = {.version = 7};
    IS(UNINITIALIZED, CALL(nvmlDeviceGetCount_v2, &number));
    IS(UNINITIALIZED, CALL(nvmlDeviceGetTemperature, NULL, 0, &number));
    IS(UNINITIALIZED, CALL(nvmlShutdown));
    IS(0, CALL(nvmlSystemGetCudaDriverVersion, &number));
    SAME(number, 13000);
    IS(0, CALL(nvmlInit_v2));
    IS(0, CALL(nvmlInitWithFlags, 0));
    Device device = first();
    IS(INVALID, CALL(nvmlDeviceGetCount_v2, NULL));
    IS(INVALID, CALL(nvmlDeviceGetHandleByIndex_v2, 0, NULL));
    IS(INVALID, CALL(nvmlDeviceGetHandleByIndex_v2, 99, &device));
    IS(INVALID, CALL(nvmlDeviceGetHandleByUUID, NULL, &device));
    IS(6, CALL(nvmlDeviceGetHandleByUUID, "GPU-0", &device));
    IS(INVALID, CALL(nvmlDeviceGetName, device, NULL, 96));
    IS(SMALL, CALL(nvmlDeviceGetName, device, text, sizeof text));
    IS(SMALL, CALL(nvmlDeviceGetUUID, device, text, 0));
    SAME(strcmp(text, "abc"), 0);
    IS(INVALID, CALL(nvmlDeviceGetMemoryInfo, device, NULL));
    IS(INVALID, CALL(nvmlDeviceGetMemoryInfo_v2, device, NULL));
    IS(VERSION, CALL(nvmlDeviceGetMemoryInfo_v2, device, &second));
    IS(INVALID, CALL(nvmlDeviceGetUtilizationRates, NULL, pair));
    IS(INVALID, CALL(nvmlDeviceGetUtilizationRates, (Device)0x1234, pair));
    IS(INVALID, CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, NULL, NULL));
    IS(INVALID, CALL(nvmlDeviceGetFieldValues, device, -1, NULL));
    IS(UNSUPPORTED, CALL(nvmlDeviceGetTemperature, device, 0, &number));
    IS(UNSUPPORTED, CALL(nvmlDeviceGetPowerUsage, device, &number));
    IS(UNSUPPORTED, CALL(nvmlEventSetCreate, &device));
    IS(0, CALL(nvmlShutdown));
    IS(0, CALL(nvmlDeviceGetCount_v2, &number));
    IS(0, CALL(nvmlShutdown));
    IS(UNINITIALIZED, CALL(nvmlDeviceGetCount_v2, &number));
}

/* A child goes on where its parent was, and what it ends is its own. */
static void forks(void) {
    unsigned count = 0;
    int status = 0;
    IS(0, CALL(nvmlInit_v2));
    Device device = first();
    pid_t child = fork();
    if (child == 0) {
        Memory memory;
        IS(0, CALL(nvmlDeviceGetMemoryInfo, device, &memory));
        SAME(memory.total, 64 * MIB);
        IS(0, CALL(nvmlShutdown));
        IS(UNINITIALIZED, CALL(nvmlDeviceGetCount_v2, &count));
        IS(0, CALL(nvmlInit_v2));
        IS(0, CALL(nvmlDeviceGetCount_v2, &count));
        _exit(count == 1 ? 0 : 2);
    }
    waitpid(child, &status, 0);
    SAME(status, 0);
    IS(0, CALL(nvmlDeviceGetCount_v2, &count));
    SAME(count, 1);
}

/* Who comes and goes does not disturb those who stay. */
static void *comes_and_goes(void *unused) {
    (void)unused;
    for (int turn = 0; turn < 200; turn++) {
        unsigned count = 0;
        Memory memory;
        IS(0, CALL(nvmlInit_v2));
        IS(0, CALL(nvmlDeviceGetCount_v2, &count));
        SAME(count, 1);
        IS(0, CALL(nvmlDeviceGetMemoryInfo, first(), &memory));
        SAME(memory.total, 64 * MIB);
        IS(0, CALL(nvmlShutdown));
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[8];
    unsigned count = 0;
    IS(0, CALL(nvmlInit_v2));
    for (int at = 0; at < 8; at++) {
        SAME(pthread_create(&all[at], NULL, comes_and_goes, NULL), 0);
    }
    for (int at = 0; at < 8; at++) {
        SAME(pthread_join(all[at], NULL), 0);
    }
    IS(0, CALL(nvmlShutdown));
    IS(UNINITIALIZED, CALL(nvmlDeviceGetCount_v2, &count));
}

/* What a round holds is said in that round, however soon it follows the one before. */
static void rounds(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    IS(0, CALL(nvmlInit_v2));
    Device device = first();
    for (int round = 0; round < 120; round++) {
        size_t bytes = (size_t)(round % 7 + 1) * MIB;
        CUdeviceptr made;
        Memory memory;
        Process process;
        unsigned count = 1;
        CHECK(cuMemAlloc_v2(&made, bytes));
        CHECK(cuCtxSynchronize());
        IS(0, CALL(nvmlDeviceGetMemoryInfo, device, &memory));
        SAME(memory.used, bytes);
        IS(0, CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, &process));
        SAME(process.used, bytes);
        CHECK(cuMemFree_v2(made));
    }
}

/* Of a device whose worker is silent all is known but what the worker would say, until it is lost. */
static void silent(void) {
    char name[96];
    Memory memory;
    unsigned rates[2];
    IS(0, CALL(nvmlInit_v2));
    Device device = first();
    IS(0, CALL(nvmlDeviceGetName, device, name, sizeof name));
    IS(0, CALL(nvmlDeviceGetMemoryInfo, device, &memory));
    puts("ready");
    fflush(stdout);
    if (getchar() != '\n') {
        exit(1);
    }
    int status = 0;
    struct timespec begun, ended;
    /* Longer than an answer is good. */
    usleep(100 * 1000);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    IS(10, CALL(nvmlDeviceGetMemoryInfo, device, &memory));
    IS(0, CALL(nvmlDeviceGetName, device, name, sizeof name));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    SAME(ended.tv_sec - begun.tv_sec <= 3, 1);
    for (int tries = 0; tries < 30 && status != 15; tries++) {
        usleep(100 * 1000);
        status = CALL(nvmlDeviceGetUtilizationRates, device, rates);
    }
    SAME(status, 15);
}

/* Without a cluster: an error, and soon. */
static void alone(void) {
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    IS(NO_DRIVER, CALL(nvmlInit_v2));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    const char *(*explain)(int) = (const char *(*)(int))find("nvmlErrorString");
    long took = (ended.tv_sec - begun.tv_sec) * 1000 + (ended.tv_nsec - begun.tv_nsec) / 1000000;
    printf("%s\n%ld ms\n", explain(NO_DRIVER), took);
}

int main(int count, char **words) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL || count < 2) {
        puts(library == NULL ? dlerror() : "which part?");
        return 1;
    }
    const char *part = words[1];
    if (strcmp(part, "look") == 0) {
        IS(0, CALL(nvmlInit_v2));
        compare(strtoul(words[2], NULL, 10), strtoul(words[3], NULL, 10), atoi(words[4]));
        return 0;
    }
    if (strcmp(part, "alone") == 0) {
        alone();
        return 0;
    }
    if (strcmp(part, "numbers") == 0) {
        numbers(words[0]);
    } else if (strcmp(part, "wrong") == 0) {
        wrong();
    } else if (strcmp(part, "forks") == 0) {
        forks();
    } else if (strcmp(part, "threads") == 0) {
        threads();
    } else if (strcmp(part, "rounds") == 0) {
        rounds();
    } else {
        silent();
    }
    printf("%s: well\n", part);
    return 0;
}
