// nvcc:
// Tensor maps in memory, as grouped matrix products use them: an array of maps is copied to the device in several
// ways, and a kernel goes from map to map by pointer.
#include "tensor.cuh"

constexpr int GROUPS = 6, BOX = 32, ROWS = 8;

struct Pair {
  CUtensorMap from, to;
};

__constant__ Pair constant_pairs[GROUPS];
__device__ Pair symbol_pairs[GROUPS];

// Adds one to the box at (x, y) of each group's tensor. Pairs in global memory may be new: the copy engine's view
// of each map is renewed before its use.
__global__ void add_one(const Pair *pairs, bool in_memory, int3 at, int *late) {
#if HOPPER
  __shared__ alignas(128) float box[BOX * ROWS];
  __shared__ alignas(8) uint64_t barrier;
  if (threadIdx.x == 0) barrier_init(&barrier);
  __syncthreads();
  if (!pairs) pairs = in_memory ? symbol_pairs : constant_pairs;
  for (int group = 0; group < GROUPS; group++) {
    const Pair *pair = pairs + group;
    if (threadIdx.x == 0) {
      if (in_memory) {
        asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(&pair->from) : "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(&pair->to) : "memory");
      }
      barrier_expect(&barrier, sizeof box);
      load_box<2>(box, &pair->from, at, &barrier);
    }
    if (!barrier_wait(&barrier, group & 1)) {
      *late = 1;
      return;
    }
    for (int i = threadIdx.x; i < BOX * ROWS; i += blockDim.x) box[i] += 1;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) store_box<2>(&pair->to, at, box);
    // The next load may overwrite the box only now.
    __syncthreads();
  }
#endif
}

// Copies maps by ordinary stores, as a kernel does that prepares them for others.
__global__ void copy_pairs(const int4 *from, int4 *to) {
#if HOPPER
  for (int i = threadIdx.x; i < (int)(GROUPS * sizeof(Pair) / sizeof(int4)); i += blockDim.x) to[i] = from[i];
  __threadfence();
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
#endif
}

static float *from[GROUPS], *to[GROUPS];
static int *late;

// Rows have 40 + 4 * group values, and each tensor has 16 + group rows.
static int wide(int group) { return 40 + 4 * group; }
static int high(int group) { return 16 + group; }
static float value_of(int group, int i) { return (float)(group * 10000 + i); }

static void make_pairs(Pair *pairs) {
  for (int group = 0; group < GROUPS; group++) {
    const int count = wide(group) * high(group);
    static float host[128 * 32];
    for (int i = 0; i < count; i++) host[i] = value_of(group, i);
    from[group] = to_device(host, count);
    to[group] = device_array<float>(count);
    const Tiled it = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                      2,
                      {(cuuint64_t)wide(group), (cuuint64_t)high(group), 1},
                      {(cuuint64_t)wide(group) * 4, 0},
                      {BOX, ROWS, 1},
                      CU_TENSOR_MAP_SWIZZLE_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE};
    pairs[group].from = encode_tiled(it, from[group]);
    pairs[group].to = encode_tiled(it, to[group]);
  }
}

static void test(const char *what, const Pair *pairs, bool in_memory) {
  static float back[128 * 32];
  const int3 at = make_int3(20, 10, 0);
  add_one<<<1, 128>>>(pairs, in_memory, at, late);
  RAN();
  int was_late;
  to_host(&was_late, late, 1);
  if (was_late) fail("maps in %s: a load did not end within 3 s", what);
  for (int group = 0; group < GROUPS; group++) {
    const int count = wide(group) * high(group);
    to_host(back, to[group], count);
    for (int i = 0; i < count; i++) {
      int x = i % wide(group) - at.x, y = i / wide(group) - at.y;
      bool inside = x >= 0 && x < BOX && y >= 0 && y < ROWS;
      float right = inside ? value_of(group, i) + 1 : 0;
      if (back[i] != right) fail("maps in %s: group %d, value %d is %g, not %g", what, group, i, back[i], right);
    }
    CHECK(cudaMemset(to[group], 0, count * sizeof(float)));
  }
}

int main() {
  feature_begin("tensor_memory");
  need(9);
  late = device_array<int>(1);
  Pair pairs[GROUPS], *pinned;
  make_pairs(pairs);
  Pair *copied = to_device(pairs, GROUPS);
  test("memory, by cudaMemcpy", copied, true);
  Pair *async = device_array<Pair>(GROUPS);
  CHECK(cudaMallocHost(&pinned, sizeof pairs));
  memcpy(pinned, pairs, sizeof pairs);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMemcpyAsync(async, pinned, sizeof pairs, cudaMemcpyHostToDevice, stream));
  CHECK(cudaStreamSynchronize(stream));
  test("memory, by cudaMemcpyAsync", async, true);
  CHECK(cudaMemcpyToSymbol(symbol_pairs, pairs, sizeof pairs));
  test("a variable of the module", nullptr, true);
  CHECK(cudaMemcpyToSymbol(constant_pairs, pairs, sizeof pairs));
  test("constant memory", nullptr, false);
  Pair *moved = device_array<Pair>(GROUPS);
  copy_pairs<<<1, 128>>>((const int4 *)copied, (int4 *)moved);
  RAN();
  test("memory, by a kernel", moved, true);
  return well();
}
