// Blocks that wait for one another by spinning on global memory.

// Every block takes a lock, adds its threads to a plain counter, and lets go.
extern "C" __global__ void spin_lock(unsigned *lock, volatile unsigned *counter) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0u, 1u) != 0u) {
        }
        __threadfence();
        *counter = *counter + blockDim.x;
        __threadfence();
        atomicExch(lock, 0u);
    }
}

// A block draws a ticket and waits until the one before it has written its number.
// order[ticket] = ticket * 3 + 1 if and only if every turn came in ticket order.
extern "C" __global__ void spin_turns(unsigned *ticket, volatile unsigned *turn,
                                      unsigned *__restrict__ order) {
    if (threadIdx.x == 0) {
        unsigned mine = atomicAdd(ticket, 1u);
        while (*turn != mine) {
        }
        __threadfence();
        order[mine] = mine == 0 ? 1u : ((volatile unsigned *)order)[mine - 1] + 3u;
        __threadfence();
        *turn = mine + 1;
    }
}
