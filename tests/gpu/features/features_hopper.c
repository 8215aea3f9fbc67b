// What came with Hopper, for `features`: clusters, tensor maps, warp group products, dependent launches.
#include "features.h"

enum { WIDE = 40, HIGH = 20, BOX_X = 32, BOX_Y = 8, BOX_BYTES = BOX_X * BOX_Y * 4 };

static const char *CLUSTERED =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry clustered(.param .u64 out) {\n"
    "  .reg .u32 %rank, %size, %block, %sum, %i, %own, %at, %v; .reg .u64 %o, %w; .reg .pred %p;\n"
    "  .shared .align 4 .u32 value;\n"
    "  mov.u32 %rank, %cluster_ctarank; mov.u32 %size, %cluster_nctarank; mov.u32 %block, %ctaid.x;\n"
    "  add.u32 %v, %block, 100; st.shared.u32 [value], %v;\n"
    "  barrier.cluster.arrive; barrier.cluster.wait;\n"
    "  mov.u32 %sum, 0; mov.u32 %i, 0; mov.u32 %own, value;\n"
    "next: setp.ge.u32 %p, %i, %size; @%p bra done;\n"
    "  mapa.shared::cluster.u32 %at, %own, %i; ld.shared::cluster.u32 %v, [%at];\n"
    "  add.u32 %sum, %sum, %v; add.u32 %i, %i, 1; bra next;\n"
    "done: barrier.cluster.arrive; barrier.cluster.wait;\n"
    "  ld.param.u64 %o, [out]; mul.wide.u32 %w, %block, 12; add.u64 %o, %o, %w;\n"
    "  st.global.u32 [%o], %sum; st.global.u32 [%o+4], %rank; st.global.u32 [%o+8], %size; ret; }\n";

static void try_cluster(CUhandle function, unsigned size) {
    struct attribute shape = {.id = 4, .values = {size, 1, 1}};
    struct config config = {{32, 1, 1}, {1, 1, 1}, 0, NULL, &shape, 1};
    uint32_t seen[32][3];
    CUdeviceptr out = device_bytes(sizeof seen);
    void *arguments[] = {&out};
    int active = 0;
    ASK(cuOccupancyMaxActiveClusters, &active, function, &config);
    if (active < 1) fail("no cluster of %u blocks fits", size);
    ASK(cuLaunchKernelEx, &config, function, arguments, NULL);
    to_host(seen, out, sizeof seen);
    for (unsigned block = 0; block < 32; block++) {
        unsigned first = block / size * size, sum = size * (100 + first) + size * (size - 1) / 2;
        if (seen[block][0] != sum || seen[block][1] != block % size || seen[block][2] != size)
            fail("block %u has sum %u, rank %u of %u, not %u, %u of %u", block, seen[block][0], seen[block][1],
                 seen[block][2], sum, block % size, size);
    }
}

void cluster(void) {
    driver_open();
    CUhandle function = kernel_of(CLUSTERED, "clustered");
    for (unsigned size = 2; size <= 8; size *= 2) try_cluster(function, size);
    ASK(cuFuncSetAttribute, function, 14, 1);
    try_cluster(function, 16);
    well(NULL);
}

// One thread: a barrier, a copy, a wait of at most three seconds, and the box word by word to `out`; then `late`.
#define LOADER(NAME, MAP, MAP_IS, COPY)                                                                      \
    ".visible .entry " NAME "(" MAP ", .param .u64 out, .param .u32 bytes, .param .u32 x, .param .u32 y) {\n" \
    "  .reg .u64 %m, %o, %a, %b; .reg .u32 %bar, %box, %n, %x, %y, %i, %v, %z;\n"                            \
    "  .reg .u16 %fx, %fy; .reg .pred %p;\n"                                                                \
    "  .shared .align 128 .b8 box[4096]; .shared .align 8 .b64 bar;\n"                                       \
    "  ld.param.u64 %o, [out]; ld.param.u32 %n, [bytes]; ld.param.u32 %x, [x]; ld.param.u32 %y, [y];\n"      \
    "  mov.u32 %bar, bar; mov.u32 %box, box; mov.u32 %z, 0; mov.u16 %fx, 2; mov.u16 %fy, 0;\n"               \
    "  mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;\n"                      \
    "  fence.proxy.async.shared::cta;\n" MAP_IS                                                              \
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %n;\n" COPY                                      \
    "  mov.u64 %a, %globaltimer;\n"                                                                          \
    "wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @%p bra there;\n"                         \
    "  mov.u64 %b, %globaltimer; sub.u64 %b, %b, %a; setp.lt.u64 %p, %b, 3000000000; @%p bra wait;\n"        \
    "  ret;\n"                                                                                               \
    "there: mov.u32 %i, 0;\n"                                                                                \
    "next: setp.ge.u32 %p, %i, %n; @%p bra done;\n"                                                          \
    "  ld.shared.u32 %v, [%box]; st.global.u32 [%o+4], %v;\n"                                                \
    "  add.u32 %box, %box, 4; add.u64 %o, %o, 4; add.u32 %i, %i, 4; bra next;\n"                             \
    "done: ld.param.u64 %o, [out]; st.global.u32 [%o], 1; ret; }\n"

#define IN_PARAMETERS ".param .align 64 .b8 map[128]"
#define FROM_PARAMETERS "  mov.b64 %m, map; cvta.param.u64 %m, %m;\n"
#define BOX_COPY                                                                        \
    "  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" \
    " [%box], [%m, {%x, %y}], [%bar];\n"

static const char *LOADERS =
    ".version 8.3\n.target sm_90\n.address_size 64\n" LOADER("tile", IN_PARAMETERS, FROM_PARAMETERS, BOX_COPY)
        LOADER("window", IN_PARAMETERS, FROM_PARAMETERS,
               "  cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
               " [%box], [%m, {%z, %x, %y, %z}], [%bar], {%fx, %fy};\n")
            LOADER("by_pointer", ".param .u64 map",
                   "  ld.param.u64 %m, [map]; fence.proxy.tensormap::generic.acquire.sys [%m], 128;\n", BOX_COPY);

static void encode_tile(void *map, CUdeviceptr tensor) {
    const uint64_t dims[2] = {WIDE, HIGH}, strides[1] = {WIDE * 4};
    const uint32_t box[2] = {BOX_X, BOX_Y}, steps[2] = {1, 1};
    ASK(cuTensorMapEncodeTiled, map, 7, 2u, tensor, dims, strides, box, steps, 0, 0, 2, 0);
}

// Runs a loader: `map` is its first argument. The words of the box come back.
static void load(const char *name, void *map, uint32_t *words, uint32_t bytes, int x, int y) {
    uint32_t back[1 + 1024];
    CUdeviceptr out = device_bytes(sizeof back);
    void *arguments[] = {map, &out, &bytes, &x, &y};
    start(kernel_of(LOADERS, name), 1, 1, NULL, arguments);
    to_host(back, out, sizeof back);
    if (back[0] != 1) fail("the load did not end within 3 s");
    memcpy(words, back + 1, bytes);
}

static CUdeviceptr tensor_of(int count) {
    float *values = malloc(count * sizeof *values);
    for (int i = 0; i < count; i++) values[i] = i + 1;
    CUdeviceptr device = to_device(values, count * sizeof *values);
    free(values);
    return device;
}

static void compare_tile(const float *box, int x, int y) {
    for (int i = 0; i < BOX_X * BOX_Y; i++) {
        int column = x + i % BOX_X, row = y + i / BOX_X;
        int inside = column >= 0 && column < WIDE && row >= 0 && row < HIGH;
        float right = inside ? row * WIDE + column + 1 : 0;
        if (box[i] != right) fail("value %d of the box at (%d, %d) is %g, not %g", i, x, y, box[i], right);
    }
}

void tensor_tiled(void) {
    static char map[128] __attribute__((aligned(64)));
    float box[BOX_X * BOX_Y];
    driver_open();
    encode_tile(map, tensor_of(WIDE * HIGH));
    load("tile", map, (uint32_t *)box, BOX_BYTES, 4, 5);
    compare_tile(box, 4, 5);
    load("tile", map, (uint32_t *)box, BOX_BYTES, 20, 16);
    compare_tile(box, 20, 16);
    load("tile", map, (uint32_t *)box, BOX_BYTES, -3, -2);
    compare_tile(box, -3, -2);
    well(NULL);
}

void tensor_memory(void) {
    static char maps[2][128] __attribute__((aligned(64)));
    float box[BOX_X * BOX_Y];
    driver_open();
    encode_tile(maps[0], device_bytes(WIDE * HIGH * 4));
    encode_tile(maps[1], tensor_of(WIDE * HIGH));
    CUdeviceptr second = to_device(maps, sizeof maps) + sizeof maps[0];
    load("by_pointer", &second, (uint32_t *)box, BOX_BYTES, 20, 16);
    compare_tile(box, 20, 16);
    well(NULL);
}

// 8 channels of 16x16 pixels, filter 3x3 with padding 1: the filter's place (2, 0) for 32 pixels from (3, 5) on.
void tensor_im2col(void) {
    enum { CHANNELS = 8, SIDE = 16, IMAGES = 32, PIXELS = 32 };
    static char map[128] __attribute__((aligned(64)));
    float seen[PIXELS * CHANNELS];
    driver_open();
    CUdeviceptr tensor = tensor_of(CHANNELS * SIDE * SIDE * IMAGES);
    const uint64_t dims[4] = {CHANNELS, SIDE, SIDE, IMAGES};
    const uint64_t strides[3] = {CHANNELS * 4, CHANNELS * 4 * SIDE, CHANNELS * 4 * SIDE * SIDE};
    const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
    const uint32_t steps[4] = {1, 1, 1, 1};
    ASK(cuTensorMapEncodeIm2col, map, 7, 4u, tensor, dims, strides, lower, upper, (uint32_t)CHANNELS,
        (uint32_t)PIXELS, steps, 0, 0, 2, 0);
    load("window", map, (uint32_t *)seen, sizeof seen, 3 - 1, 5 - 1);
    for (int i = 0; i < PIXELS * CHANNELS; i++) {
        int at = 5 * SIDE + 3 + i / CHANNELS, x = at % SIDE - 1 + 2, y = at / SIDE - 1;
        float right = x < SIDE ? (y * SIDE + x) * CHANNELS + i % CHANNELS + 1 : 0;
        if (seen[i] != right) fail("value %d is %g, not %g", i, seen[i], right);
    }
    well(NULL);
}

// The text of a kernel that copies two matrices of 2 KiB to shared memory, multiplies them, and stores 32 sums a
// thread.
static char *product_text(void) {
    static char text[8192];
    char *end = text;
    end += sprintf(end,
                   ".version 8.0\n.target sm_90a\n.address_size 64\n"
                   ".visible .entry product(.param .u64 a, .param .u64 b, .param .u64 out) {\n"
                   "  .reg .u64 %%a, %%b, %%o, %%w, %%da, %%db; .reg .u32 %%t, %%s, %%v<4>; .reg .f32 %%f<32>;\n"
                   "  .reg .pred %%p; .shared .align 128 .b8 left[2048]; .shared .align 128 .b8 right[2048];\n"
                   "  ld.param.u64 %%a, [a]; ld.param.u64 %%b, [b]; ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x;\n"
                   "  mul.wide.u32 %%w, %%t, 16; add.u64 %%a, %%a, %%w; add.u64 %%b, %%b, %%w;\n"
                   "  mov.u32 %%s, left; mad.lo.u32 %%s, %%t, 16, %%s;\n"
                   "  ld.global.v4.u32 {%%v0, %%v1, %%v2, %%v3}, [%%a];\n"
                   "  st.shared.v4.u32 [%%s], {%%v0, %%v1, %%v2, %%v3};\n"
                   "  mov.u32 %%s, right; mad.lo.u32 %%s, %%t, 16, %%s;\n"
                   "  ld.global.v4.u32 {%%v0, %%v1, %%v2, %%v3}, [%%b];\n"
                   "  st.shared.v4.u32 [%%s], {%%v0, %%v1, %%v2, %%v3};\n"
                   "  fence.proxy.async.shared::cta; bar.sync 0;\n"
                   // Address, 128 bytes between cores along k, 256 along the rows, all in units of 16.
                   "  mov.u32 %%s, left; shr.u32 %%s, %%s, 4; cvt.u64.u32 %%da, %%s;\n"
                   "  or.b64 %%da, %%da, 0x1000080000;\n"
                   "  mov.u32 %%s, right; shr.u32 %%s, %%s, 4; cvt.u64.u32 %%db, %%s;\n"
                   "  or.b64 %%db, %%db, 0x1000080000;\n"
                   "  setp.ne.u32 %%p, %%t, %%t;\n");
    for (int i = 0; i < 32; i++) end += sprintf(end, "  mov.f32 %%f%d, 0f00000000;\n", i);
    end += sprintf(end, "  wgmma.fence.sync.aligned;\n  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {");
    for (int i = 0; i < 32; i++) end += sprintf(end, "%s%%f%d", i ? ", " : "", i);
    end += sprintf(end,
                   "}, %%da, %%db, %%p, 1, 1, 0, 0;\n  wgmma.commit_group.sync.aligned;\n"
                   "  wgmma.wait_group.sync.aligned 0;\n  mul.wide.u32 %%w, %%t, 128; add.u64 %%o, %%o, %%w;\n");
    for (int i = 0; i < 32; i++) end += sprintf(end, "  st.global.f32 [%%o+%d], %%f%d;\n", i * 4, i);
    sprintf(end, "  ret; }\n");
    return text;
}

// The upper half of a float's bits: exact for small whole numbers.
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 16;
}

void wgmma(void) {
    float a[64][16], b[64][16], seen[128][32];
    uint16_t left[1024], right[1024];
    driver_open();
    CUhandle function = kernel_of(product_text(), "product");
    for (int row = 0; row < 64; row++)
        for (int k = 0; k < 16; k++) {
            int place = (row / 8 * 2 + k / 8) * 64 + row % 8 * 8 + k % 8;
            left[place] = to_bf16(a[row][k] = (row * 5 + k * 3) % 23 - 11);
            right[place] = to_bf16(b[row][k] = (row * 7 + k * 5) % 19 - 9);
        }
    CUdeviceptr first = to_device(left, sizeof left), second = to_device(right, sizeof right);
    CUdeviceptr out = device_bytes(sizeof seen);
    void *arguments[] = {&first, &second, &out};
    start(function, 1, 128, NULL, arguments);
    to_host(seen, out, sizeof seen);
    for (int thread = 0; thread < 128; thread++)
        for (int i = 0; i < 32; i++) {
            int row = thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            float sum = 0;
            for (int k = 0; k < 16; k++) sum += a[row][k] * b[column][k];
            if (seen[thread][i] != sum) fail("(%d, %d) is %g, not %g", row, column, seen[thread][i], sum);
        }
    well(NULL);
}

static const char *LINK =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry link(.param .u64 out, .param .u32 number) {\n"
    "  .reg .u64 %o; .reg .u32 %v, %n;\n"
    "  griddepcontrol.launch_dependents; griddepcontrol.wait;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %n, [number];\n"
    "  ld.global.u32 %v, [%o]; mad.lo.u32 %v, %v, 3, %n; st.global.u32 [%o], %v; ret; }\n";

void pdl(void) {
    driver_open();
    CUhandle function = kernel_of(LINK, "link"), stream = new_stream();
    struct attribute dependent = {.id = 6, .values = {1}};
    struct config config = {{1, 1, 1}, {1, 1, 1}, 0, stream, &dependent, 1};
    uint32_t right = 1, seen;
    CUdeviceptr out = to_device(&right, sizeof right);
    for (uint32_t number = 0; number < 40; number++) {
        void *arguments[] = {&out, &number};
        ASK(cuLaunchKernelEx, &config, function, arguments, NULL);
        right = right * 3 + number;
    }
    to_host(&seen, out, sizeof seen);
    if (seen != right) fail("the chain's value is %u, not %u", seen, right);
    well(NULL);
}
