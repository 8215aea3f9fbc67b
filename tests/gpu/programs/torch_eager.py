"""PyTorch without torch.compile: a small network trained for a few steps, all kernels torch's and cuBLAS's own."""

import sys

try:
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)


def losses(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 10))
    x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    told = []
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told.append(loss.item())
    return told


ours, theirs = losses("cuda"), losses("cpu")
assert ours[-1] < ours[0] / 2, ours
torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-2, atol=1e-3)
print("well")
