// What kernels call and no module defines: printf, malloc and free, assert.


// One line per thread, of every kind of argument.
extern "C" __global__ void runtime_print(const char *name, const float *x, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        printf("%s[%u] = %8.3f %e %g|%-6d|%06x|%c|%lld|%%\n", name, i, x[i], (double)x[i] * 1e10,
               (double)x[i], -(int)i, i * 4097, 'a' + (int)i % 26, 1ll << (40 + i % 20));
    }
}

// The same without arguments, and what printf returns.
extern "C" __global__ void runtime_printed(int *out)
{
    out[0] = printf("plain\n");
    out[1] = printf("%d %s\n", 1, "two");
}

// Each thread sums 1 to i + 1 in a list of its own on the heap.
extern "C" __global__ void runtime_heap(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned *list = (unsigned *)malloc((i + 1) * sizeof(unsigned));
    if (!list) {
        out[i] = 0;
        return;
    }
    for (unsigned k = 0; k <= i; k++) {
        list[k] = k + 1;
    }
    unsigned sum = 0;
    for (unsigned k = 0; k <= i; k++) {
        sum += list[k];
    }
    out[i] = sum;
    free(list);
}

extern "C" __device__ void __assertfail(const char *message, const char *file, unsigned line,
                                        const char *function, size_t size);

// Thread `at` asserts something false.
extern "C" __global__ void runtime_assert(unsigned at)
{
    if (threadIdx.x == at) {
        __assertfail("threadIdx.x != at", "runtime.cu", 53, "runtime_assert", sizeof(char));
    }
}
