"""The work of traced.py on a function that torch.compile compiles to one kernel."""

import numpy as np
import torch
import torch._inductor.metrics as metrics

#: Launches between two waits, at most.
LAUNCHES = 4


@torch.compile
def step(values, number):
    return values * 3 + number


class Device:
    """Numbers on the device."""

    def __init__(self, values, is_alone):
        assert is_alone, "one thread compiles"
        self.values = torch.from_numpy(values.view(np.int32)).to("cuda")
        self.pinned = torch.empty(values.size, dtype=torch.int32, pin_memory=True)
        self.out = self.pinned.numpy().view(np.uint32)
        # A copy from other memory would wait.
        self.numbers = [(torch.empty(1, dtype=torch.int32, pin_memory=True),
                         torch.empty(1, dtype=torch.int32, device="cuda")) for _ in range(LAUNCHES)]
        self.made = 0

    def step(self, number):
        here, there = self.numbers[self.made]
        self.made += 1
        here.numpy().view(np.uint32)[0] = number
        there.copy_(here, non_blocking=True)
        self.values = step(self.values, there)
        assert metrics.generated_kernel_count == 1, "a function of several kernels"

    def copy_out(self):
        self.pinned.copy_(self.values, non_blocking=True)

    def wait(self):
        torch.cuda.synchronize()
        self.made = 0
