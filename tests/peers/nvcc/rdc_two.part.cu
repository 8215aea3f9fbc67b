// The second file of rdc_two.cu.
extern __device__ int base_value;
__device__ int local_part(int x);
__device__ int shared_counter = 7;
__constant__ float factors[3];
static __device__ int plus5(int x) { return x + 5; }
__device__ int (*chosen)(int) = plus5;

__device__ int twist(int x, int depth) { return depth == 0 ? x : twist(local_part(x) + 1, depth - 1); }
__global__ void other(int *out) { out[threadIdx.x] = base_value + threadIdx.x; }
void launch_other(int *out) { other<<<1, 64>>>(out); }
