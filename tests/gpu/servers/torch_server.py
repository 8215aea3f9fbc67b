#!/usr/bin/env python3
"""A job server of PyTorch: the jobs of `jobs.json` whose server is `torch`.

`--device cpu --tiny` runs them with tiny shapes on PyTorch's CPU build: a test of the scripts, on request.
"""

import argparse
import hashlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
# The answers' pipe first: what libraries print at their import is no answer.
from protocol import Job, Server  # noqa: E402

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

from torch_load import Copier, Freer, Loader  # noqa: E402
from torch_models import LlamaLike, bert, gpt2, resnet50, vit  # noqa: E402
from torch_parts import Attention, Convolution, Product  # noqa: E402

SEED = 20261127


class Torch(Job):
    """A job whose work is a function without arguments, made anew for its digest."""

    def __init__(self, options, make):
        self.options, self.make = options, make
        self.gpu = options.device == "cuda"

    def enter(self):
        if self.gpu:
            torch.cuda.init()
            self.stream = torch.cuda.Stream()
            torch.cuda.set_stream(self.stream)

    def prepare(self):
        self.work = self._fresh()

    def _fresh(self):
        torch.manual_seed(SEED)
        return self.make(self.options)

    def step(self):
        self.work()

    def sync(self):
        if self.gpu:
            self.stream.synchronize()

    def digest(self):
        fresh = self._fresh()
        told = None
        for _ in range(2):
            told = fresh()
        self.sync()
        outputs = fresh.outputs() if hasattr(fresh, "outputs") else [told]
        if not outputs or outputs[0] is None:
            return None, "the job has no output"
        hashed = hashlib.sha256()
        for it in outputs:
            hashed.update(it.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return hashed.hexdigest(), None

    def drop(self):
        self.work = None
        if self.gpu:
            self.stream.synchronize()
            torch.cuda.empty_cache()


#: What makes the work of each job; those of a size are named with it, as in `gemm_bf16:8192`.
JOBS = {
    **{f"gemm_{it}": lambda o, size, it=it: Product(o, it, int(size or 4096))
       for it in ("bf16", "fp16", "tf32", "fp8")},
    **{f"attention_{it}": lambda o, _, it=it: Attention(o, it) for it in ("flash", "efficient", "cudnn", "math")},
    **{f"conv_{it}": lambda o, _, it=it: Convolution(o, it) for it in ("3x3", "1x1", "depthwise", "3d")},
    "resnet50_train": lambda o, _: resnet50(o, 64, train=True),
    "gpt2_train": lambda o, _: gpt2(o, 4, 512),
    "gpt2_train_compiled": lambda o, _: gpt2(o, 4, 512, compiled=True),
    "llama_decode": lambda o, _: LlamaLike(o, layers=16, width=2048),
    "llama_decode_graph": lambda o, _: LlamaLike(o, layers=16, width=2048, graph=True),
    "vit_infer": lambda o, _: vit(o, 32),
    "bert_infer": lambda o, _: bert(o, 16, 128),
    "launch": lambda o, _: gpt2(o, 1, 64),
    "middle": lambda o, _: resnet50(o, 8),
    "large": lambda o, _: Product(o, "bf16", 8192),
    "decode": lambda o, _: LlamaLike(o, layers=24, width=1024, graph=True),
    "urgent": lambda o, _: resnet50(o, 48),
    "train": lambda o, _: resnet50(o, 32, train=True),
    "loader": lambda o, _: Loader(o),
    "freer": lambda o, _: Freer(o),
    "copier": lambda o, _: Copier(o),
}


def main():
    """Serves until the end of stdin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes")
    options = parser.parse_args()
    def make(name):
        kind, _, size = name.partition(":")
        if kind not in JOBS:
            raise ValueError(f"there is no job {name}")
        return Torch(options, lambda given: JOBS[kind](given, size))

    Server(make).serve()


if __name__ == "__main__":
    main()
