/* Allocates and frees as it is told on its input, a line each, and answers each line with the status
   of the call: `alloc BYTES`, `free` (the allocation made last), `info`, `work` (writes to the
   allocation made last, reads it back, and waits for the device). */
#include "driver.h"

enum { MOST = 64 };

static CUdeviceptr made[MOST];
static int count;

static int work(void) {
    unsigned word = 7, back = 0;
    int status = 0;
    if (count > 0) {
        status = cuMemcpyHtoD_v2(made[count - 1], &word, sizeof word);
        if (status == 0) {
            status = cuMemcpyDtoH_v2(&back, made[count - 1], sizeof back);
        }
        if (status == 0 && back != word) {
            return -1;
        }
    }
    return status == 0 ? cuCtxSynchronize() : status;
}

int main(void) {
    CUcontext context;
    char line[64];
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t free = 0, total = 0;
        unsigned long bytes = 0;
        if (sscanf(line, "alloc %lu", &bytes) == 1) {
            int status = cuMemAlloc_v2(&made[count], bytes);
            count += status == 0;
            printf("%d\n", status);
        } else if (strcmp(line, "free\n") == 0) {
            printf("%d\n", cuMemFree_v2(made[--count]));
        } else if (strcmp(line, "info\n") == 0) {
            CHECK(cuMemGetInfo_v2(&free, &total));
            printf("%zu of %zu\n", free, total);
        } else {
            printf("%d\n", work());
        }
        fflush(stdout);
    }
    return 0;
}
