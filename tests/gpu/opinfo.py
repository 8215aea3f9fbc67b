#!/usr/bin/env python3
"""Operations drawn from PyTorch's own test samples: a digest of each result, a line each.

    opinfo.py --count 300 --seed 7 --dtype bfloat16 --out FILE [--skip N]

The draw is the same in every mode. A line is written before an operation runs and one behind it, so that a
process that died says where; --skip goes on behind that operation. --stand-in draws kernels without PyTorch.
"""

import argparse
import hashlib
import json
import pathlib
import random
import sys
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--skip", type=int, default=0, help="so many operations of the draw were done before")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--stand-in", action="store_true")
    return parser.parse_args()


def drawn(options):
    """The operations of the draw: a name and what runs it, which returns the bytes of the results."""
    if options.stand_in:
        return stand_ins(options)
    # PyTorch's test module imports this for a base class that samples do not need.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    dtype = getattr(torch, options.dtype)
    able = [it for it in op_db if dtype in it.supported_dtypes(options.device)]
    able.sort(key=lambda it: (it.name, it.variant_test_name))
    picked = random.Random(options.seed).sample(able, min(options.count, len(able)))
    return [(f"{it.name}.{it.variant_test_name}".rstrip("."), lambda op=it: sampled(op, options, dtype))
            for it in picked]


def sampled(op, options, dtype):
    """Runs the first three samples of an operation: the bytes of all tensors that it returns."""
    import itertools

    import torch
    from torch.utils import _pytree

    torch.manual_seed(options.seed)
    hashed = hashlib.sha256()
    for sample in itertools.islice(op.sample_inputs(options.device, dtype, requires_grad=False), 3):
        torch.manual_seed(options.seed)
        told = op(sample.input, *sample.args, **sample.kwargs)
        for it in _pytree.tree_leaves(told):
            if isinstance(it, torch.Tensor) and it.layout == torch.strided:
                bits = it.detach().resolve_conj().resolve_neg().cpu().clone(
                    memory_format=torch.contiguous_format).reshape(-1)
                hashed.update(bits.view(torch.uint8).numpy().tobytes())
    if options.device == "cuda":
        torch.cuda.synchronize()
    return hashed


def stand_ins(options):
    """Kernels of random lengths and sizes."""
    sys.path.insert(0, str(HERE / "servers"))
    from stand_in import Driver, Kernels

    driver, random_of = Driver(), random.Random(options.seed)

    def one(salt, trips, blocks):
        job = Kernels(driver, options.dtype, 0.02)
        job.trips, job.salt, job.blocks = trips, salt, blocks
        job.enter()
        job.prepare()
        digest, _ = job.digest()
        job.drop()
        return hashlib.sha256(digest.encode())

    return [(f"mix.{it}", lambda a=(it, random_of.randint(1, 400), random_of.randint(1, 8)): one(*a))
            for it in range(options.count)]


def main():
    """Runs the draw; exit code 3 if the device is lost."""
    options = arguments()
    until = time.monotonic() + options.seconds
    with options.out.open("a") as out:
        def say(**told):
            out.write(json.dumps(told) + "\n")
            out.flush()

        for place, (name, ran) in enumerate(drawn(options)):
            if place < options.skip:
                continue
            if time.monotonic() > until:
                break
            say(begin=name, place=place)
            try:
                say(op=name, place=place, digest=ran().hexdigest(), reason=None)
            except Exception as failed:
                text = " ".join(f"{type(failed).__name__}: {failed}".split())[:200]
                say(op=name, place=place, digest=None, reason=text)
                if any(it in text for it in ("illegal memory", "unspecified launch failure", "device-side assert",
                                             "DEVICE_UNAVAILABLE", "busy or unavailable")):
                    return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
