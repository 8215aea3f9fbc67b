/* What a device has free behind several frees, at once: all of them count. */
#include "driver.h"

enum { MIB = 1 << 20 };

static long left(void) {
    size_t free = 0;
    CHECK(cuMemGetInfo_v2(&free, NULL));
    return (long)(free / MIB);
}

static void pieces(long before, int count, int each) {
    CUdeviceptr made[16];
    for (int at = 0; at < count; at++)
        CHECK(cuMemAlloc_v2(&made[at], (size_t)each * MIB));
    ASSERT(before - left() == (long)count * each);
    for (int at = 0; at < count; at++)
        CHECK(cuMemFree_v2(made[at]));
    ASSERT(left() == before);
}

int main(int count, char **arguments) {
    CUcontext context;
    CUdeviceptr big, small;
    (void)count;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    long before = left();
    for (int turn = 0; turn < 10; turn++) {
        pieces(before, 2, 64);
        pieces(before, 4, 64);
        pieces(before, 16, 16);
        pieces(before, 1, 256);
    }
    CHECK(cuMemAlloc_v2(&big, 256ul * MIB));
    CHECK(cuMemAlloc_v2(&small, 256));
    CHECK(cuMemFree_v2(big));
    CHECK(cuMemAlloc_v2(&big, 250ul * MIB));
    /* A part of the last one is told in full. */
    ASSERT(before - left() == 250 || before - left() == 251);
    printf("%s: well\n", arguments[1]);
    return 0;
}
