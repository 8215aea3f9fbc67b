// As tests/kernels/suite/gelu.cu.

kernel void gelu(global const float *restrict x, global float *restrict out, uint n) {
    uint i = get_global_id(0);
    if (i < n) {
        float v = x[i];
        float u = 1.5957691216f * (v + 0.044715f * v * v * v);
        out[i] = v / (1.0f + exp(-u));
    }
}
