/* How the drop-in behaves as a guest in a program: one part for each argument. */
#include "driver.h"
#include "add.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_INITIALIZED = 3, DEINITIALIZED = 4, ILLEGAL_ADDRESS = 700, N = 1000, THREADS = 8 };

typedef struct {
    CUcontext context;
    CUfunction add;
    CUdeviceptr words;
} Device;

static Device one;
static volatile int stop;

static Device begin(int ordinal) {
    static unsigned zeros[N];
    Device it;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&it.context, 0, ordinal));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&it.add, module, "add"));
    CHECK(cuMemAlloc_v2(&it.words, sizeof zeros));
    CHECK(cuMemcpyHtoD_v2(it.words, zeros, sizeof zeros));
    return it;
}

static int launch(const Device *on, unsigned by, CUstream stream) {
    CUdeviceptr words = on->words;
    unsigned count = N;
    void *parameters[] = {&words, &by, &count};
    return cuLaunchKernel(on->add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL);
}

static void all(CUdeviceptr words, unsigned wanted) {
    unsigned got[N];
    CHECK(cuMemcpyDtoH_v2(got, words, sizeof got));
    for (int at = 0; at < N; at++) ASSERT(got[at] == wanted);
}

/* Launches into memory of its own, waits now and then, and looks at the result. */
static void *adds(void *unused) {
    Device own = one;
    CUstream stream;
    CUevent event;
    CHECK(cuCtxSetCurrent(one.context));
    CHECK(cuMemAlloc_v2(&own.words, 4 * N));
    CHECK(cuMemsetD32Async(own.words, 0, N, NULL));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuEventCreate(&event, 0));
    for (int at = 1; at <= 200; at++) {
        CHECK(launch(&own, 3, stream));
        CHECK(cuEventRecord(event, stream));
        if (at % 20 == 0) CHECK(cuEventSynchronize(event));
        if (at % 50 == 0) CHECK(cuStreamSynchronize(stream));
    }
    all(own.words, 600);
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuMemFree_v2(own.words));
    return unused;
}

static void threads(void) {
    pthread_t thread[THREADS];
    one = begin(0);
    for (int at = 0; at < THREADS; at++) ASSERT(!pthread_create(thread + at, NULL, adds, NULL));
    for (int at = 0; at < THREADS; at++) ASSERT(!pthread_join(thread[at], NULL));
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int status = (call);                                                                       \
        if (status) return status;                                                                 \
    } while (0)

static int call_many(void) {
    CUdeviceptr some;
    CUstream stream;
    CUevent event;
    const char *text;
    TRY(cuMemAlloc_v2(&some, 4096));
    TRY(cuStreamCreate(&stream, 0));
    TRY(cuEventCreate(&event, 0));
    TRY(launch(&one, 0, stream));
    TRY(cuEventRecord(event, stream));
    TRY(cuEventSynchronize(event));
    TRY(cuGetErrorString(ILLEGAL_ADDRESS, &text));
    TRY(cuEventDestroy_v2(event));
    TRY(cuStreamDestroy_v2(stream));
    return cuMemFree_v2(some);
}

/* Is inside one call or another, all the time. */
static void *busy(void *unused) {
    /* The program may end meanwhile, also before this thread begins. */
    int set = cuCtxSetCurrent(one.context);
    if (set == DEINITIALIZED) return unused;
    CHECK(set);
    while (!stop) {
        int status = call_many();
        if (status == DEINITIALIZED) break;
        CHECK(status);
    }
    return unused;
}

static void start_busy(pthread_t *thread, int count) {
    for (int at = 0; at < count; at++) ASSERT(!pthread_create(thread + at, NULL, busy, NULL));
    usleep(20000);
}

/* What the child of a fork is told: that it has no driver; at once, whatever locks there were. */
static void child(void) {
    CUdeviceptr memory = one.words;
    CUstream stream;
    CUevent event;
    CUmodule module;
    const char *text;
    int count;
    unsigned word;
    alarm(20);
    ANSWERS(NOT_INITIALIZED, cuInit(0));
    ANSWERS(NOT_INITIALIZED, cuDeviceGetCount(&count));
    ANSWERS(NOT_INITIALIZED, cuMemAlloc_v2(&memory, 4));
    ANSWERS(NOT_INITIALIZED, cuMemFree_v2(one.words));
    ANSWERS(NOT_INITIALIZED, cuMemcpyDtoH_v2(&word, one.words, 4));
    ANSWERS(NOT_INITIALIZED, cuStreamCreate(&stream, 0));
    ANSWERS(NOT_INITIALIZED, cuStreamSynchronize((CUstream)0x10000));
    ANSWERS(NOT_INITIALIZED, cuEventCreate(&event, 0));
    ANSWERS(NOT_INITIALIZED, cuEventRecord((CUevent)0x10000, (CUstream)0x10010));
    ANSWERS(NOT_INITIALIZED, cuEventDestroy_v2((CUevent)0x10000));
    ANSWERS(NOT_INITIALIZED, cuModuleLoadData(&module, ADD));
    ANSWERS(NOT_INITIALIZED, launch(&one, 1, NULL));
    ANSWERS(NOT_INITIALIZED, cuGraphCreate(NULL, 0));
    ANSWERS(NOT_INITIALIZED, cuCtxSynchronize());
    CHECK(cuGetErrorString(ILLEGAL_ADDRESS, &text));
}

static void forks(void) {
    pthread_t thread[4];
    one = begin(0);
    start_busy(thread, 4);
    for (int at = 0; at < 20; at++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            child();
            if (at % 2) execl("/bin/sh", "sh", "-c", "exit 7", NULL);
            exit(7);
        }
        ASSERT(waitpid(pid, &status, 0) == pid);
        ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    stop = 1;
    for (int at = 0; at < 4; at++) ASSERT(!pthread_join(thread[at], NULL));
    CHECK(launch(&one, 5, NULL));
    all(one.words, 5);
}

static void *initializes(void *unused) {
    CHECK(cuInit(0));
    return unused;
}

/* Forks while another thread initialises: the child can do so itself, or hears that it cannot. */
static void forks_early(void) {
    pthread_t thread;
    int told[2] = {0, 0};
    ASSERT(!pthread_create(&thread, NULL, initializes, NULL));
    for (int at = 0; at < 30; at++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            _exit(cuInit(0));
        }
        ASSERT(waitpid(pid, &status, 0) == pid);
        ASSERT(WIFEXITED(status));
        int answer = WEXITSTATUS(status);
        ASSERT(answer == 0 || answer == NOT_INITIALIZED);
        told[answer != 0]++;
        usleep(500);
    }
    ASSERT(!pthread_join(thread, NULL));
    ASSERT(told[0] + told[1] == 30);
    one = begin(0);
    all(one.words, 0);
}

/* Other ways to another program; this one keeps its driver. */
static void spawns(void) {
    extern char **environ;
    char *arguments[] = {"sh", "-c", "exit 7", NULL};
    pthread_t thread[2];
    pid_t pid;
    int status;
    one = begin(0);
    start_busy(thread, 2);
    for (int at = 0; at < 5; at++) {
        status = system("exit 7");
        ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        ASSERT(!posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ));
        ASSERT(waitpid(pid, &status, 0) == pid);
        ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        CHECK(launch(&one, 1, NULL));
    }
    stop = 1;
    for (int at = 0; at < 2; at++) ASSERT(!pthread_join(thread[at], NULL));
    all(one.words, 5);
}

/* Ends with threads inside calls and work in flight. */
static void leaves_busy(void) {
    pthread_t thread[4];
    one = begin(0);
    start_busy(thread, 4);
    for (int at = 0; at < 500; at++) CHECK(launch(&one, 1, NULL));
}

static void *ends(void *unused) {
    usleep(50000);
    printf("leaves_thread: well\n");
    exit(0);
    return unused;
}

/* A thread ends the program while this one waits, again and again. */
static void leaves_thread(void) {
    pthread_t thread;
    one = begin(0);
    ASSERT(!pthread_create(&thread, NULL, ends, NULL));
    for (;;) {
        int status = launch(&one, 1, NULL);
        if (!status) status = cuCtxSynchronize();
        ASSERT(status == 0 || status == DEINITIALIZED);
    }
}

static void after(void) {
    ANSWERS(DEINITIALIZED, cuCtxSynchronize());
    ANSWERS(DEINITIALIZED, cuMemFree_v2(one.words));
    printf("leaves_late: well\n");
    fflush(stdout);
}

static void before(void) {
    all(one.words, 9);
}

/* Handlers of the program's own, ahead of the driver's and behind it. */
static void leaves_late(void) {
    atexit(after);
    one = begin(0);
    atexit(before);
    CHECK(launch(&one, 9, NULL));
    exit(0);
}

/* No handler was installed, and no thread of the driver's takes the program's signals. */
static void signals(void) {
    static const int ours[] = {SIGHUP, SIGINT, SIGUSR1, SIGALRM, SIGTERM, SIGCHLD, SIGPROF};
    struct dirent *entry;
    int others = 0;
    /* A shell starts what runs in its background with SIGINT and SIGQUIT ignored. */
    int ignored[32] = {0};
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        ignored[number] = !sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN;
    }
    one = begin(0);
    CHECK(launch(&one, 1, NULL));
    all(one.words, 1);
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action)) continue;
        ASSERT(action.sa_handler == (ignored[number] ? SIG_IGN : SIG_DFL));
    }
    DIR *tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks))) {
        char path[64], line[256];
        unsigned long long blocked = 0;
        int id = atoi(entry->d_name);
        if (id == 0 || id == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/status", id);
        FILE *status = fopen(path, "r");
        if (!status) continue;
        while (fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &blocked);
        fclose(status);
        for (size_t at = 0; at < sizeof ours / sizeof *ours; at++) {
            ASSERT(blocked >> (ours[at] - 1) & 1);
        }
        others++;
    }
    closedir(tasks);
    ASSERT(others > 0);
}

static void two(void) {
    int count = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    ASSERT(count == 2);
    Device first = begin(0), second = begin(1);
    CHECK(launch(&second, 2, NULL));
    CHECK(cuCtxSetCurrent(first.context));
    CHECK(launch(&first, 5, NULL));
    all(first.words, 5);
    all(second.words, 2);
    CHECK(cuMemcpyPeer(second.words, second.context, first.words, first.context, 4 * N));
    all(second.words, 5);
    CHECK(launch(&first, 1, NULL));
    CHECK(cuMemcpyDtoD_v2(second.words, first.words, 4 * N));
    CHECK(cuCtxSetCurrent(second.context));
    CHECK(launch(&second, 4, NULL));
    all(second.words, 10);
    all(first.words, 6);
    CHECK(cuMemcpy(first.words, second.words, 4 * N));
    all(first.words, 10);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"threads", threads},         {"forks", forks},
        {"forks_early", forks_early}, {"spawns", spawns},
        {"leaves_busy", leaves_busy}, {"leaves_late", leaves_late},
        {"signals", signals},         {"leaves_thread", leaves_thread},
        {"two", two},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
