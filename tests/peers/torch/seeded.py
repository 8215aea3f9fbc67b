"""Dropout by seed, and AdamW with gradients that are given."""

import numpy as np
import torch
import torch.nn.functional as F
import torch._functorch.config as functorch

from compare import Different, worst, zeroed

KEEP = 0.7


def _philox(seed, counter):
    """The first word of Philox 4x32-10, as triton.language.rand takes it, for each of these counters."""
    low = np.uint64(0xFFFFFFFF)
    words = [counter.astype(np.uint64), *(np.zeros(counter.shape, np.uint64) for _ in range(3))]
    keys = [np.uint64(seed) & low, np.uint64(seed) >> np.uint64(32)]
    for _ in range(10):
        even, odd = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(odd >> np.uint64(32)) ^ words[1] ^ keys[0], odd & low,
                 (even >> np.uint64(32)) ^ words[3] ^ keys[1], even & low]
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & low, (keys[1] + np.uint64(0xBB67AE85)) & low]
    return words[0].astype(np.uint32)


def _uniform(seed, offset, count):
    """The numbers between 0 and 1 that a compiled function draws."""
    drawn = _philox(seed, np.arange(offset, offset + count)).view(np.int32).astype(np.int64)
    drawn = np.where(drawn < 0, -drawn - 1, drawn)
    return torch.from_numpy(drawn.astype(np.float32) * np.float32(4.6566127342e-10))


def dropout():
    """Dropout and its gradient: what is kept is what the seed says, twice the same."""
    shape = (40, 130)
    x, direction = torch.randn(shape), torch.randn(shape)

    def whole(x, direction):
        y = F.dropout(x, 1 - KEEP)
        return y.detach(), torch.autograd.grad(y, x, direction)[0]

    # The seed comes from the host: else a kernel of torch's own would draw it.
    with functorch.patch(functionalize_rng_ops=True):
        torch._dynamo.config.trace_autograd_ops = True
        compiled = torch.compile(whole, fullgraph=True)
        moved = x.to("cuda").requires_grad_(), direction.to("cuda")
        runs = []
        for seed in (7, 7, 8):
            torch.manual_seed(seed)
            runs.append([it.cpu() for it in compiled(*moved)])
        again = [it.cpu() for it in compiled(*moved)]
    if not all(map(torch.equal, runs[0], runs[1])):
        raise Different("the same seed keeps other elements")
    for other in (runs[2], again):
        if torch.equal(runs[0][0] != 0, other[0] != 0):
            raise Different("another seed, or a later call, keeps the same elements")
    mask = (_uniform(7, 0, x.numel()).reshape(shape) > 1 - KEEP) / KEEP
    return worst([it.to("cuda") for it in runs[0]], [x * mask, direction * mask])


def adamw():
    """Parameters and moments after ten steps of AdamW with the same gradients."""
    firsts = [torch.randn(30, 20), torch.randn(50)]
    gradients = [[torch.randn(it.shape) for it in firsts] for _ in range(10)]

    def steps(device):
        there = [torch.nn.Parameter(it.clone().to(device)) for it in firsts]
        optimizer = torch.optim.AdamW(there, lr=1e-2, weight_decay=0.1, capturable=device == "cuda")
        step = optimizer.step
        if device == "cuda":
            zeroed(optimizer, device)
            step = torch.compile(step)
        for each in gradients:
            for parameter, gradient in zip(there, each):
                parameter.grad = gradient.to(device)
            step()
        states = [optimizer.state[it] for it in there]
        return there + [state[name] for state in states for name in ("step", "exp_avg", "exp_avg_sq")]

    gots, wants = steps("cuda"), steps("cpu")
    return worst(gots, wants)


CASES = {"dropout by seed": dropout, "adamw": adamw}
