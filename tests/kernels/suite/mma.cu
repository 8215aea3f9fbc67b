// c = a b with f16 factors and f32 sums by mma.m16n8k8: a warp per 16 x 8 of c. a is row-major,
// b is stored transposed, both as pairs of f16 in u32.

extern "C" __global__ void mma(const unsigned *__restrict__ a, const unsigned *__restrict__ b,
                                     float *__restrict__ c, unsigned n) {
    unsigned lane = threadIdx.x, group = lane / 4, pair = lane % 4, half = n / 2;
    unsigned row = blockIdx.y * 16, column = blockIdx.x * 8;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned k = 0; k < half; k += 4) {
        unsigned a0 = a[(row + group) * half + k + pair];
        unsigned a1 = a[(row + group + 8) * half + k + pair];
        unsigned b0 = b[(column + group) * half + k + pair];
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a0), "r"(a1), "r"(b0));
    }
    float *top = c + (row + group) * n + column + 2 * pair;
    float *bottom = top + 8 * n;
    top[0] = sum[0];
    top[1] = sum[1];
    bottom[0] = sum[2];
    bottom[1] = sum[3];
}
