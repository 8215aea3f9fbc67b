// What a broken tenant launches. Each entry must end as that tenant's error.

// Writes one word `index` words after p.
extern "C" __global__ void faulty_write(unsigned *p, unsigned long long index) {
    p[index] = 0xdeadbeefu;
}

// Reads a word `offset` bytes after p: misaligned unless offset is a multiple of 4.
extern "C" __global__ void faulty_misaligned(const char *p, unsigned long long offset,
                                             unsigned *out) {
    *out = *(const unsigned *)(p + offset);
}

// Never ends while *stop is 0.
extern "C" __global__ void faulty_endless(const volatile unsigned *stop, unsigned *out) {
    unsigned rounds = 0;
    while (*stop == 0) {
        rounds++;
    }
    *out = rounds;
}

// Thread `at` traps.
extern "C" __global__ void faulty_trap(unsigned at) {
    if (threadIdx.x == at) {
        __trap();
    }
}

// Writes `index` words into a shared array of 32.
extern "C" __global__ void faulty_shared(unsigned *out, unsigned index) {
    __shared__ unsigned words[32];
    volatile unsigned *w = words;
    w[index] = threadIdx.x;
    __syncthreads();
    *out = w[0];
}
