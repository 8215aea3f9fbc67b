// As tests/kernels/suite/saxpy.cu.

kernel void saxpy(uint n, float a, global const float *restrict x, global float *restrict y) {
    uint i = get_global_id(0);
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
