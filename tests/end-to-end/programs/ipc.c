/* Shares memory and events with another process as it is told on its input, a line each, and answers each
   line: with a number, or with `error STATUS` where a call fails. */
#include <fcntl.h>
#include <unistd.h>

#include "driver.h"

enum { MOST = 16, NAME = 64, GRAIN = 2 << 20, INTERPROCESS = 4, DISABLE_TIMING = 2, FILE_HANDLE = 1 };

typedef struct {
    unsigned char bytes[NAME];
} Name;
typedef struct {
    int kind, number;
} Location;
typedef struct {
    int kind, shared;
    Location location;
    void *windows;
    unsigned char flags[8];
} Properties;
typedef struct {
    Location location;
    int flags;
} Access;
typedef unsigned long long Handle;

int cuIpcGetMemHandle(Name *, CUdeviceptr);
int cuIpcOpenMemHandle_v2(CUdeviceptr *, Name, unsigned);
int cuIpcCloseMemHandle(CUdeviceptr);
int cuIpcGetEventHandle(Name *, CUevent);
int cuIpcOpenEventHandle(CUevent *, Name);
int cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
int cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
int cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
int cuMemRelease(Handle);
int cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
int cuMemUnmap(CUdeviceptr, size_t);
int cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t);
int cuMemExportToShareableHandle(void *, Handle, int, unsigned long long);
int cuMemImportFromShareableHandle(Handle *, void *, int);

static const char *const KERNEL =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry plus(.param .u64 bytes, .param .u32 count)\n"
    "{\n"
    "    .reg .pred %p;\n    .reg .b32 %i, %n, %x, %b, %d;\n    .reg .b64 %a, %o;\n"
    "    ld.param.u64 %a, [bytes];\n    ld.param.u32 %n, [count];\n"
    "    mov.u32 %i, %tid.x;\n    mov.u32 %b, %ctaid.x;\n    mov.u32 %d, %ntid.x;\n"
    "    mad.lo.s32 %i, %b, %d, %i;\n"
    "    setp.ge.u32 %p, %i, %n;\n    @%p bra done;\n"
    "    cvt.u64.u32 %o, %i;\n    add.u64 %a, %a, %o;\n"
    "    ld.global.u8 %x, [%a];\n    add.u32 %x, %x, 1;\n    st.global.u8 [%a], %x;\n"
    "done:\n    ret;\n}\n";

static const Properties shared = {1, FILE_HANDLE, {1, 0}, NULL, {0}};
static const Access both = {{1, 0}, 3};
static CUfunction plus;
static CUevent event;
static Handle pieces[MOST];
static int count;

static void answer(int status, unsigned long long value) {
    status == 0 ? printf("%llu\n", value) : printf("error %d\n", status);
}

static void say_name(int status, const Name *name) {
    if (status != 0) {
        return answer(status, 0);
    }
    for (int i = 0; i < NAME; i++) {
        printf("%02x", name->bytes[i]);
    }
    printf("\n");
}

static Name read_name(const char *text) {
    Name name = {{0}};
    for (int i = 0; i < NAME; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        name.bytes[i] = byte;
    }
    return name;
}

/* What all bytes of a range are; -1 where they differ. */
static void see(CUdeviceptr at, unsigned long bytes) {
    unsigned char *there = malloc(bytes);
    int status = cuMemcpyDtoH_v2(there, at, bytes), same = 1;
    for (unsigned long i = 1; status == 0 && i < bytes; i++) {
        same &= there[i] == there[0];
    }
    status != 0 ? answer(status, 0) : same ? printf("%d\n", there[0]) : printf("-1\n");
    free(there);
}

static int copied(CUdeviceptr at, unsigned long bytes, unsigned value) {
    unsigned char *there = malloc(bytes);
    memset(there, value, bytes);
    int status = cuMemcpyHtoD_v2(at, there, bytes);
    free(there);
    return status;
}

static int added(CUdeviceptr at, unsigned bytes) {
    void *arguments[] = {&at, &bytes};
    return cuLaunchKernel(plus, (bytes + 255) / 256, 1, 1, 256, 1, 1, 0, 0, arguments, 0);
}

/* Maps a piece at fresh addresses. */
static int mapped(CUdeviceptr *at, Handle piece, unsigned long bytes) {
    int status = cuMemAddressReserve(at, bytes, 0, 0, 0);
    status = status ? status : cuMemMap(*at, bytes, 0, piece, 0);
    return status ? status : cuMemSetAccess(*at, bytes, &both, 1);
}

static void pieces_of(const char *line) {
    unsigned long n = 0, bytes = 0;
    unsigned long long at = 0;
    char path[256];
    int file = -1;
    if (sscanf(line, "piece %lu", &bytes) == 1) {
        int status = cuMemCreate(&pieces[count], bytes, &shared, 0);
        answer(status, count);
        count += status == 0;
    } else if (sscanf(line, "share %lu", &n) == 1) {
        int status = cuMemExportToShareableHandle(&file, pieces[n], FILE_HANDLE, 0);
        status == 0 ? printf("/proc/%d/fd/%d\n", getpid(), file) : answer(status, 0);
    } else if (sscanf(line, "take %255s", path) == 1) {
        file = open(path, O_RDONLY);
        int status = cuMemImportFromShareableHandle(&pieces[count], (void *)(uintptr_t)file, FILE_HANDLE);
        close(file);
        answer(status, count);
        count += status == 0;
    } else if (sscanf(line, "map %lu %lu", &n, &bytes) == 2) {
        CUdeviceptr where = 0;
        int status = mapped(&where, pieces[n], bytes);
        answer(status, where);
    } else if (sscanf(line, "unmap %llu %lu", &at, &bytes) == 2) {
        answer(cuMemUnmap(at, bytes), 0);
    } else if (sscanf(line, "release %lu", &n) == 1) {
        answer(cuMemRelease(pieces[n]), 0);
    }
}

static void events(const char *line) {
    char text[2 * NAME + 1];
    if (strcmp(line, "event\n") == 0) {
        answer(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING), 0);
    } else if (strcmp(line, "event-name\n") == 0) {
        Name name;
        int status = cuIpcGetEventHandle(&name, event);
        say_name(status, &name);
    } else if (sscanf(line, "event-open %128s", text) == 1) {
        answer(cuIpcOpenEventHandle(&event, read_name(text)), 0);
    } else if (strcmp(line, "event-record\n") == 0) {
        answer(cuEventRecord(event, 0), 0);
    } else if (strcmp(line, "event-wait\n") == 0) {
        answer(cuStreamWaitEvent(0, event, 0), 0);
    } else if (strcmp(line, "event-query\n") == 0) {
        answer(cuEventQuery(event), 0);
    }
}

int main(void) {
    CUcontext context;
    CUmodule module;
    char line[256];
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, KERNEL));
    CHECK(cuModuleGetFunction(&plus, module, "plus"));
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned long bytes = 0;
        unsigned long long at = 0;
        unsigned value = 0;
        char text[2 * NAME + 1];
        if (sscanf(line, "alloc %lu", &bytes) == 1) {
            CUdeviceptr made = 0;
            int status = cuMemAlloc_v2(&made, bytes);
            answer(status, made);
        } else if (sscanf(line, "free %llu", &at) == 1) {
            answer(cuMemFree_v2(at), 0);
        } else if (sscanf(line, "fill %llu %lu %u", &at, &bytes, &value) == 3) {
            answer(cuMemsetD8_v2(at, value, bytes), 0);
        } else if (sscanf(line, "copy %llu %lu %u", &at, &bytes, &value) == 3) {
            answer(copied(at, bytes, value), 0);
        } else if (sscanf(line, "plus %llu %lu", &at, &bytes) == 2) {
            answer(added(at, bytes), 0);
        } else if (sscanf(line, "see %llu %lu", &at, &bytes) == 2) {
            see(at, bytes);
        } else if (sscanf(line, "name %llu", &at) == 1) {
            Name name;
            int status = cuIpcGetMemHandle(&name, at);
            say_name(status, &name);
        } else if (sscanf(line, "open %128s", text) == 1) {
            CUdeviceptr where = 0;
            int status = cuIpcOpenMemHandle_v2(&where, read_name(text), 1);
            answer(status, where);
        } else if (sscanf(line, "close %llu", &at) == 1) {
            answer(cuIpcCloseMemHandle(at), 0);
        } else if (strcmp(line, "info\n") == 0) {
            size_t free = 0, total = 0;
            int status = cuMemGetInfo_v2(&free, &total);
            answer(status, free);
        } else if (strncmp(line, "event", 5) == 0) {
            events(line);
        } else {
            pieces_of(line);
        }
        fflush(stdout);
    }
    return 0;
}
