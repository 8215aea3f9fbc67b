/* Arrays, texture objects and surface objects, and the reset of a primary context, one part for each
   argument. */
#include "driver.h"

enum {
    INVALID_VALUE = 1,
    INVALID_HANDLE = 400,
    NOT_SUPPORTED = 801,
    HOST = 1,
    DEVICE = 2,
    ARRAY = 3,
    BYTE = 1,
    SHORT = 2,
    SIGNED = 10,
    FLOAT = 0x20,
    LAYERED = 1,
    SURFACE = 2,
    CUBEMAP = 4,
    N = 100,
};

static const char *MODULE = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .global .u32 seed = 7;\n"
                            ".visible .entry store(.param .u64 to) {\n"
                            "  .reg .b32 %r;\n  .reg .b64 %a;\n"
                            "  ld.param.u64 %a, [to];\n  cvta.to.global.u64 %a, %a;\n"
                            "  ld.global.u32 %r, [seed];\n  st.global.u32 [%a], %r;\n  ret;\n}\n";

static CUcontext context;

static void begin(void) {
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
}

/* Words 0, 1, 2, ... */
static void number(void *to, unsigned count) {
    for (unsigned at = 0; at < count; at++) memcpy((char *)to + 4 * at, &at, 4);
}

static void row(void) {
    ArrayFlat flat = {N, 0, FLOAT, 1}, told;
    CUarray one, two;
    CUdeviceptr words;
    CUstream stream;
    float from[N], to[N];
    for (int at = 0; at < N; at++) from[at] = at;
    CHECK(cuMemAlloc_v2(&words, sizeof from));
    CHECK(cuMemsetD8_v2(words, 0, sizeof from));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuArrayCreate_v2(&one, &flat));
    CHECK(cuArrayCreate_v2(&two, &flat));
    ASSERT(one != two);
    CHECK(cuArrayGetDescriptor_v2(&told, one));
    ASSERT(told.width == N && told.height == 0 && told.format == FLOAT && told.channels == 1);
    CHECK(cuMemcpyHtoA_v2(one, 0, from, sizeof from));
    CHECK(cuMemcpyAtoA_v2(two, 40, one, 0, sizeof from - 40));
    CHECK(cuMemcpyAtoD_v2(words, two, 40, 80));
    CHECK(cuMemcpyDtoH_v2(to, words, 80));
    ASSERT(to[0] == 0 && to[19] == 19);
    CHECK(cuMemcpyDtoA_v2(one, 200, words, 80));
    CHECK(cuMemcpyAtoH_v2(to, one, 0, sizeof to));
    ASSERT(to[49] == 49 && to[50] == 0 && to[69] == 19 && to[70] == 70);
    from[0] = -1;
    CHECK(cuMemcpyHtoAAsync_v2(one, sizeof from - 4, from, 4, stream));
    CHECK(cuMemcpyAtoHAsync_v2(to, one, sizeof from - 8, 8, stream));
    CHECK(cuStreamSynchronize(stream));
    ASSERT(to[0] == 98 && to[1] == -1);
    ANSWERS(INVALID_VALUE, cuMemcpyHtoA_v2(one, 4, from, sizeof from));
    ANSWERS(INVALID_VALUE, cuMemcpyAtoH_v2(to, one, 2, 4));
    ANSWERS(INVALID_VALUE, cuMemcpyAtoH_v2(to, one, (size_t)-4, 8));
    CHECK(cuArrayDestroy(two));
    ANSWERS(INVALID_HANDLE, cuArrayDestroy(two));
    ANSWERS(INVALID_HANDLE, cuMemcpyAtoH_v2(to, two, 0, 4));
    CHECK(cuArrayDestroy(one));
}

static void plane(void) {
    enum { W = 11, H = 5 };
    ArrayFlat flat = {W, H, SHORT, 2};
    CUarray array;
    CUdeviceptr words;
    size_t pitch = 64;
    unsigned from[H][W], to[H][W];
    number(from, W * H);
    CHECK(cuMemAlloc_v2(&words, pitch * H));
    CHECK(cuArrayCreate_v2(&array, &flat));
    Copy2D in = {{0, 0, HOST, from, 0, NULL, sizeof *from}, {0, 0, ARRAY, NULL, 0, array, 0}, 4 * W, H};
    CHECK(cuMemcpy2D_v2(&in));
    /* A piece of it goes to device memory, changed there, and back beside where it was. */
    Copy2D out = {{8, 1, ARRAY, NULL, 0, array, 0}, {4, 2, DEVICE, NULL, words, NULL, pitch}, 12, 2};
    CHECK(cuMemcpy2D_v2(&out));
    CHECK(cuMemsetD8_v2(words + 2 * pitch + 4, 0, 4));
    Copy2D back = {{4, 2, DEVICE, NULL, words, NULL, pitch}, {16, 3, ARRAY, NULL, 0, array, 0}, 12, 2};
    CHECK(cuMemcpy2DAsync_v2(&back, NULL));
    Copy2D whole = {{0, 0, ARRAY, NULL, 0, array, 0}, {0, 0, HOST, to, 0, NULL, sizeof *to}, 4 * W, H};
    CHECK(cuMemcpy2D_v2(&whole));
    from[3][4] = 0, from[3][5] = from[1][3], from[3][6] = from[1][4];
    for (int x = 0; x < 3; x++) from[4][4 + x] = from[2][2 + x];
    ASSERT(!memcmp(from, to, sizeof to));
    in.height++;
    ANSWERS(INVALID_VALUE, cuMemcpy2D_v2(&in));
    back.to.x = 36;
    ANSWERS(INVALID_VALUE, cuMemcpy2D_v2(&back));
    back.to.kind = 9;
    ANSWERS(INVALID_VALUE, cuMemcpy2D_v2(&back));
    CHECK(cuArrayDestroy(array));
}

/* A volume or layers: the same boxes of either. */
static void volume(unsigned flags) {
    enum { W = 6, H = 4, D = 3 };
    ArrayBox box = {W, H, D, BYTE, 4, flags}, told;
    CUarray array, other;
    CUgraph graph;
    CUnode node;
    CUexec exec;
    CUstream stream;
    unsigned from[D][H][W], to[D][H][W];
    number(from, W * H * D);
    CHECK(cuArray3DCreate_v2(&array, &box));
    CHECK(cuArray3DCreate_v2(&other, &box));
    CHECK(cuArray3DGetDescriptor_v2(&told, array));
    ASSERT(!memcmp(&told.width, &box.width, sizeof(size_t) * 3) && told.flags == flags);
    Side all = {.kind = HOST, .host = from, .pitch = sizeof **from, .height = H};
    Side piece = {.x = 4, .y = 1, .z = 1, .kind = ARRAY, .array = array};
    Copy3D in = {all, {.kind = ARRAY, .array = array}, 4 * W, H, D};
    Copy3D inner = {piece, {.x = 8, .y = 2, .kind = ARRAY, .array = other}, 12, 2, 2};
    Copy3D out = {{.kind = ARRAY, .array = other}, all, 4 * W, H, D};
    out.to.host = to;
    CHECK(cuMemcpy3D_v2(&in));
    in.to.array = other;
    CHECK(cuMemcpy3DPeer(&in));
    CHECK(cuMemcpy3DPeerAsync(&inner, NULL));
    CHECK(cuMemcpy3DAsync_v2(&out, NULL));
    CHECK(cuCtxSynchronize());
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int copied = z < 2 && y >= 2 && x >= 2 && x < 5;
                ASSERT(to[z][y][x] == (copied ? from[z + 1][y - 1][x - 1] : from[z][y][x]));
            }
    /* The same as a node, and captured. */
    in.from.host = to;
    memset(to, 5, sizeof to);
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &in, context));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuMemcpy3DAsync_v2(&out, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuCtxSynchronize());
    memset(to, 0, sizeof to);
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    ASSERT(to[0][0][0] == 0x05050505 && to[D - 1][H - 1][W - 1] == 0x05050505);
    inner.from.z = 2;
    ANSWERS(INVALID_VALUE, cuMemcpy3D_v2(&inner));
    ANSWERS(INVALID_VALUE, cuGraphAddMemcpyNode(&node, graph, NULL, 0, &inner, context));
    inner.from.z = 0, inner.from.level = 1;
    ANSWERS(INVALID_VALUE, cuMemcpy3D_v2(&inner));
    CHECK(cuArrayDestroy(array));
    CHECK(cuArrayDestroy(other));
    inner.from.level = 0;
    ANSWERS(INVALID_HANDLE, cuMemcpy3D_v2(&inner));
}

/* Layers of one dimension. */
static void lines(void) {
    ArrayBox box = {8, 0, 3, SIGNED, 1, LAYERED};
    CUarray array;
    int from[3][8], to[8];
    number(from, 24);
    CHECK(cuArray3DCreate_v2(&array, &box));
    Copy3D in = {{.kind = HOST, .host = from, .pitch = 32, .height = 1},
                 {.kind = ARRAY, .array = array}, 32, 1, 3};
    Copy3D out = {{.z = 2, .kind = ARRAY, .array = array},
                  {.kind = HOST, .host = to, .pitch = 32, .height = 1}, 32, 1, 1};
    CHECK(cuMemcpy3D_v2(&in));
    CHECK(cuMemcpy3D_v2(&out));
    ASSERT(!memcmp(to, from[2], sizeof to));
    CHECK(cuArrayDestroy(array));
}

static void arrays(void) {
    ArrayBox box = {8, 8, 0, FLOAT, 1, 0};
    CUmipmap mipmap;
    CUarray array;
    float to[8] = {1};
    size_t before, after, total;
    begin();
    CHECK(cuMemGetInfo_v2(&before, &total));
    row();
    plane();
    volume(0);
    volume(LAYERED | SURFACE);
    lines();
    CHECK(cuMipmappedArrayCreate(&mipmap, &box, 1));
    CHECK(cuMipmappedArrayGetLevel(&array, mipmap, 0));
    CHECK(cuMemcpyHtoA_v2(array, 0, to, sizeof to));
    ANSWERS(INVALID_VALUE, cuMipmappedArrayGetLevel(&array, mipmap, 1));
    CHECK(cuMipmappedArrayDestroy(mipmap));
    ANSWERS(INVALID_HANDLE, cuMemcpyHtoA_v2(array, 0, to, sizeof to));
    ANSWERS(NOT_SUPPORTED, cuMipmappedArrayCreate(&mipmap, &box, 2));
    box.channels = 3;
    ANSWERS(INVALID_VALUE, cuArray3DCreate_v2(&array, &box));
    box.channels = 1, box.format = 0xb0;
    ANSWERS(NOT_SUPPORTED, cuArray3DCreate_v2(&array, &box));
    box.format = FLOAT, box.depth = 6, box.flags = CUBEMAP;
    ANSWERS(NOT_SUPPORTED, cuArray3DCreate_v2(&array, &box));
    box.flags = 0, box.height = 0;
    ANSWERS(INVALID_VALUE, cuArray3DCreate_v2(&array, &box));
    ANSWERS(INVALID_VALUE, cuArray3DCreate_v2(NULL, &box));
    ANSWERS(INVALID_VALUE, cuArray3DCreate_v2(&array, NULL));
    CHECK(cuMemGetInfo_v2(&after, &total));
    /* What is not freed are the words of two parts. */
    ASSERT(before - after < 2048);
}

static void objects(void) {
    ArrayBox box = {16, 8, 4, FLOAT, 1, LAYERED | SURFACE};
    ArrayFlat flat = {16, 8, BYTE, 1};
    CUarray layers, plain;
    CUobject layered, linear, pitched, bytes, surface, wrong = 0;
    CUdeviceptr words;
    Sampling sampling = {.modes = {1, 3, 0}, .filter = 1, .flags = 2, .border = {0.5f}}, read;
    Resource resource = {0}, told;
    View view = {0x0d, {16, 8, 4}, {0}, {1, 2}, {0}}, shown;
    size_t width;
    int value;
    ASSERT(sizeof resource == 144 && sizeof sampling == 104 && sizeof view == 112);
    begin();
    CHECK(cuMemAlloc_v2(&words, 4096));
    CHECK(cuArray3DCreate_v2(&layers, &box));
    CHECK(cuArrayCreate_v2(&plain, &flat));
    resource.of.array = layers;
    CHECK(cuTexObjectCreate(&layered, &resource, &sampling, NULL));
    ANSWERS(INVALID_VALUE, cuTexObjectGetResourceViewDesc(&shown, layered));
    CHECK(cuTexObjectDestroy(layered));
    ANSWERS(INVALID_VALUE, cuTexObjectDestroy(layered));
    sampling.filter = 0;
    CHECK(cuTexObjectCreate(&layered, &resource, &sampling, &view));
    CHECK(cuSurfObjectCreate(&surface, &resource));
    ASSERT(layered && surface && layered != surface);
    CHECK(cuTexObjectGetResourceDesc(&told, layered));
    ASSERT(told.kind == 0 && told.of.array == layers && told.flags == 0);
    CHECK(cuTexObjectGetTextureDesc(&read, layered));
    ASSERT(!memcmp(&read, &sampling, sizeof read));
    CHECK(cuTexObjectGetResourceViewDesc(&shown, layered));
    ASSERT(shown.format == 0x0d && shown.sizes[2] == 4 && shown.layers[1] == 2);
    CHECK(cuSurfObjectGetResourceDesc(&told, surface));
    ASSERT(told.of.array == layers);
    ANSWERS(INVALID_VALUE, cuTexObjectGetResourceDesc(&told, surface));
    ANSWERS(INVALID_VALUE, cuSurfObjectDestroy(layered));
    /* Integers are not interpolated. */
    sampling.filter = 1;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, &view));
    view.layers[1] = 4, sampling.filter = 0;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, &view));
    resource.of.array = plain, sampling.filter = 1;
    CHECK(cuTexObjectCreate(&bytes, &resource, &sampling, NULL));
    sampling.flags |= 1;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    ANSWERS(INVALID_VALUE, cuSurfObjectCreate(&wrong, &resource));
    resource.flags = 1, sampling.flags = 0;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    resource.flags = 0, sampling.modes[0] = 7;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    sampling.modes[0] = 0, resource.kind = 1;
    ANSWERS(NOT_SUPPORTED, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    resource.kind = 5;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    resource.kind = 2;
    resource.of.linear.address = words, resource.of.linear.format = FLOAT;
    resource.of.linear.channels = 4, resource.of.linear.bytes = 4096;
    CHECK(cuTexObjectCreate(&linear, &resource, &sampling, NULL));
    resource.of.linear.bytes = 8192;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    resource.kind = 3;
    resource.of.pitched.width = 15, resource.of.pitched.height = 16, resource.of.pitched.pitch = 256;
    CHECK(cuTexObjectCreate(&pitched, &resource, &sampling, NULL));
    CHECK(cuTexObjectGetResourceDesc(&told, pitched));
    ASSERT(told.kind == 3 && told.of.pitched.width == 15 && told.of.pitched.pitch == 256);
    resource.of.pitched.pitch = 248;
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, &sampling, NULL));
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(NULL, &resource, &sampling, NULL));
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, NULL, &sampling, NULL));
    ANSWERS(INVALID_VALUE, cuTexObjectCreate(&wrong, &resource, NULL, NULL));
    ASSERT(wrong == 0);
    CUobject all[] = {layered, linear, pitched, bytes};
    for (int at = 0; at < 4; at++) CHECK(cuTexObjectDestroy(all[at]));
    CHECK(cuSurfObjectDestroy(surface));
    ANSWERS(INVALID_VALUE, cuSurfObjectDestroy(surface));
    CHECK(cuArrayDestroy(layers));
    CHECK(cuDeviceGetTexture1DLinearMaxWidth(&width, FLOAT, 1, 0));
    CHECK(cuDeviceGetAttribute(&value, 69, 0));
    ASSERT(width == 1 << 28 && value == 1 << 28);
    CHECK(cuDeviceGetAttribute(&value, 22, 0));
    ASSERT(value == 131072);
}

/* What a kernel stores of the variable of its image. */
static unsigned stored(CUfunction kernel) {
    CUdeviceptr to;
    unsigned value = 0;
    void *parameters[] = {&to};
    CHECK(cuMemAlloc_v2(&to, 4));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuMemcpyDtoH_v2(&value, to, 4));
    return value;
}

static void reset(void) {
    ArrayFlat flat = {16, 16, FLOAT, 1};
    Resource resource = {0};
    Sampling sampling = {0};
    CUcontext other, popped;
    CUmodule module;
    CUlibrary library;
    CUfunction kernel, of_module;
    CUdeviceptr words, others, managed, twin, variable;
    CUarray array;
    CUobject texture;
    CUstream stream;
    void *pinned;
    size_t before, after, total;
    unsigned flags = 9, five = 5, value;
    int active = 9;
    begin();
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuMemAlloc_v2(&others, 4));
    CHECK(cuMemcpyHtoD_v2(others, &five, 4));
    CHECK(cuCtxPopCurrent_v2(&popped));
    ASSERT(popped == other);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuMemAlloc_v2(&words, 1 << 20));
    CHECK(cuMemAllocManaged(&managed, 4096, 1));
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    memset(pinned, 3, 4096);
    CHECK(cuMemHostGetDevicePointer_v2(&twin, pinned, 0));
    CHECK(cuArrayCreate_v2(&array, &flat));
    resource.of.array = array;
    CHECK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuModuleLoadData(&module, MODULE));
    CHECK(cuModuleGetFunction(&of_module, module, "store"));
    CHECK(cuLibraryLoadData(&library, MODULE, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "store"));
    ASSERT(stored(kernel) == 7 && stored(of_module) == 7);
    CHECK(cuLibraryGetGlobal(&variable, NULL, library, "seed"));
    CHECK(cuMemcpyHtoD_v2(variable, &five, 4));
    ASSERT(stored(kernel) == 5);
    CHECK(cuDevicePrimaryCtxSetFlags_v2(0, 4));
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    ASSERT(flags == 0 && active == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemGetInfo_v2(&after, &total));
    ASSERT(before == after);
    ANSWERS(INVALID_VALUE, cuMemFree_v2(words));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(managed));
    ANSWERS(INVALID_HANDLE, cuArrayDestroy(array));
    ANSWERS(INVALID_VALUE, cuTexObjectDestroy(texture));
    ANSWERS(INVALID_HANDLE, cuStreamSynchronize(stream));
    ANSWERS(INVALID_HANDLE, cuModuleUnload(module));
    /* Another context's memory and the program's own are as they were. */
    CHECK(cuMemcpyDtoH_v2(&value, others, 4));
    ASSERT(value == 5 && *(unsigned char *)pinned == 3);
    CHECK(cuMemHostGetDevicePointer_v2(&twin, pinned, 0));
    CHECK(cuMemFreeHost(pinned));
    /* A library is loaded anew where it is used again. */
    ASSERT(stored(kernel) == 7);
    CHECK(cuModuleLoadData(&module, MODULE));
    CHECK(cuModuleGetFunction(&of_module, module, "store"));
    ASSERT(stored(of_module) == 7);
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    ANSWERS(101, cuDevicePrimaryCtxReset_v2(99));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"arrays", arrays}, {"objects", objects}, {"reset", reset}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
