// As tests/kernels/suite/nbody.cu.

#define TILE 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
nbody(global const float4 *restrict bodies, global float4 *restrict out, uint n) {
    local float4 tile[TILE];
    uint t = get_local_id(0), i = get_global_id(0);
    float4 own = bodies[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (uint first = 0; first < n; first += TILE) {
        tile[t] = bodies[first + t];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < TILE; j++) {
            float4 other = tile[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float r = rsqrt(dx * dx + dy * dy + dz * dz + 1e-3f);
            float s = other.w * r * r * r;
            x += dx * s;
            y += dy * s;
            z += dz * s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = (float4)(x, y, z, 0.0f);
}
