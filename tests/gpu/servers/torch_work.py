"""What all jobs of PyTorch have in common: work that can be put back to its first state, and its bytes."""

import contextlib
import hashlib

import torch

SEED = 20261127


class Work:
    """A step of a job, as a call. Its parts are built on the device, from a seed."""

    #: Steps from the first state whose outputs a digest covers.
    DIGESTED = 2

    def __call__(self):
        """Submits a step."""

    def reset(self):
        """Puts the first state back."""

    def outputs(self):
        """The tensors of a digest: those whose bits are the same in each run by the algorithms' design."""
        return []

    def close(self):
        """Gives back what the collector does not."""


@contextlib.contextmanager
def seeded(device):
    """Tensors and modules that are made inside are made on the device, from the same seed each time."""
    torch.manual_seed(SEED)
    with torch.device(device):
        yield


class State:
    """Tensors with a copy of their first values."""

    def __init__(self, tensors):
        self.pairs = [(it, it.detach().clone()) for it in tensors]

    @torch.no_grad()
    def restore(self):
        """Copies the first values back."""
        for tensor, first in self.pairs:
            tensor.copy_(first)


def words(tensor):
    """The bytes of a tensor as one flat tensor of its own."""
    flat = tensor.detach().reshape(-1)
    return flat.new_empty(flat.shape).copy_(flat).view(torch.uint8)


def hashed(tensors):
    """The SHA-256 of the tensors' types, shapes and bytes."""
    told = hashlib.sha256()
    for it in tensors:
        told.update(f"{it.dtype} {list(it.shape)}".encode())
        told.update(words(it).cpu().numpy().tobytes())
    return told.hexdigest()


def digest(work):
    """The digest of a work, or None and the reason; it runs twice to see if its bits are steady."""
    first = None
    for turn in range(2):
        work.reset()
        for _ in range(work.DIGESTED):
            work()
        tensors = [words(it) for it in work.outputs()]
        if not tensors:
            return None, "the job has no output"
        if turn == 0:
            first = tensors
    if not all(torch.equal(a, b) for a, b in zip(first, tensors, strict=True)):
        return None, "unsteady: two runs of this process from one state gave other bits"
    return hashed(work.outputs()), None
