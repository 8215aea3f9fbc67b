// As tests/kernels/suite/gather.cu.

kernel void gather(global const uint *restrict ids, global const float *restrict table,
                         global float *restrict out, uint width) {
    uint group = get_group_id(0), id = ids[group];
    for (uint i = get_local_id(0); i < width; i += get_local_size(0)) {
        out[group * width + i] = table[id * width + i];
    }
}
