// out = accelerations of n bodies (x, y, z, mass), tiles of 256 in shared memory; the same in
// tests/pocl/nbody.cl.

#define TILE 256u

extern "C" __global__ void nbody(const float4 *__restrict__ bodies, float4 *__restrict__ out,
                                       unsigned n) {
    __shared__ float4 tile[TILE];
    unsigned i = blockIdx.x * TILE + threadIdx.x;
    float4 own = bodies[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (unsigned first = 0; first < n; first += TILE) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (unsigned j = 0; j < TILE; j++) {
            float4 other = tile[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float s = other.w * r * r * r;
            x += dx * s;
            y += dy * s;
            z += dz * s;
        }
        __syncthreads();
    }
    out[i] = make_float4(x, y, z, 0.0f);
}
