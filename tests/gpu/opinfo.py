#!/usr/bin/env python3
"""Operations drawn from PyTorch's own test samples: a digest of each result, a line each.

    opinfo.py --count 300 --seed 7 --dtype bfloat16 --out FILE [--skip N | --skip-to NAME]

The draw is the same in every mode. A line is written before an operation runs and one behind it, so that a
process that died says where; --skip and --skip-to go on behind that operation. --stand-in draws kernels
without PyTorch. Exit code 3: the device's context is lost; 4: an operation did not end.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import sys
import threading
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "servers"))

from protocol import fatal, line  # noqa: E402

#: Samples of an operation that are run.
SAMPLES = 3
#: Operations whose results are memory that nothing has written.
UNTOUCHED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
             "resize_", "resize_as_")


def arguments():
    """The command line."""
    whole = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=whole)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--skip", type=int, default=0, help="so many operations of the draw were done before")
    parser.add_argument("--skip-to", metavar="NAME", help="goes on behind this operation of the draw")
    parser.add_argument("--only", metavar="NAME", help="this operation, drawn or not")
    parser.add_argument("--seconds", type=float, default=600, help="no operation begins later")
    parser.add_argument("--limit", type=float, default=30, help="seconds that an operation may take")
    parser.add_argument("--stand-in", action="store_true")
    return parser.parse_args()


def drawn(options):
    """The operations of the draw: a name, its variant, and what runs it, which returns a digest."""
    if options.stand_in:
        return stand_ins(options)
    # PyTorch's test modules import this for a base class that samples do not need.
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    if options.device == "cuda":
        torch.zeros(1, device="cuda")
    dtype = getattr(torch, options.dtype)
    named = {f"{it.name}.{it.variant_test_name}".rstrip("."): it for it in op_db
             if it.name not in UNTOUCHED and dtype in it.supported_dtypes(options.device)}
    if options.only:
        picked = [it for it in named if options.only in (it, named[it].name)]
    else:
        picked = random.Random(options.seed).sample(sorted(named), min(options.count, len(named)))
    return [(name, named[name].variant_test_name, lambda op=named[name]: sampled(op, options, dtype))
            for name in picked]


def sampled(op, options, dtype):
    """Runs the first samples of an operation: the digest of all that they return."""
    import itertools

    import torch
    from torch.utils import _pytree

    seed(options.seed)
    hashed, any_result = hashlib.sha256(), False
    # Samples are made on the host: what the device adds is the operation alone.
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES):
        parts = (sample.input, sample.args, sample.kwargs)
        value, args, kwargs = _pytree.tree_map(lambda it: moved(it, options.device), parts)
        seed(options.seed)
        for it in _pytree.tree_leaves(op(value, *args, **kwargs)):
            if isinstance(it, torch.Tensor):
                dense = it.detach() if it.layout == torch.strided else it.detach().to_dense()
                bits = dense.resolve_conj().resolve_neg().cpu().reshape(-1)
                # A copy whose elements lie one behind the other, whatever the strides were.
                bits = bits.new_empty(bits.shape).copy_(bits)
                hashed.update(f"{dense.dtype} {list(dense.shape)}".encode())
                hashed.update(bits.view(torch.uint8).numpy().tobytes())
                any_result = True
            elif isinstance(it, (bool, int, float, complex)):
                hashed.update(repr(it).encode())
                any_result = True
    if options.device == "cuda":
        torch.cuda.synchronize()
    if not any_result:
        raise ValueError("the operation has no sample, or no result")
    return hashed.hexdigest()


def seed(number):
    """Seeds all generators that samples and operations use."""
    import numpy
    import torch

    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def moved(it, device):
    """A part of a sample on the device."""
    import torch

    if isinstance(it, torch.Tensor):
        return it.to(device)
    if isinstance(it, torch.device) or isinstance(it, str) and it == "cpu":
        return torch.device(device)
    return it


def stand_ins(options):
    """Kernels of random lengths and sizes."""
    from stand_in import Driver, Kernels

    driver, random_of = Driver(), random.Random(options.seed)

    def one(salt, trips, blocks):
        job = Kernels(driver, options.dtype, 0.02)
        job.trips, job.salt, job.blocks = trips, salt, blocks
        job.enter()
        job.prepare()
        digest, _ = job.digest()
        job.drop()
        return hashlib.sha256(digest.encode()).hexdigest()

    return [(f"mix.{it}", str(it), lambda a=(it, random_of.randint(1, 400), random_of.randint(1, 8)): one(*a))
            for it in range(options.count)]


def begin_of(options, names):
    """The place in the draw at which to begin."""
    if not options.skip_to:
        return options.skip
    if options.skip_to not in names:
        sys.exit(f"opinfo.py: {options.skip_to} is not in the draw")
    return names.index(options.skip_to) + 1


def main():
    """Runs the draw; exit code 3 if the device is lost, 4 if an operation hangs."""
    options = arguments()
    until = time.monotonic() + options.seconds
    todo = drawn(options)
    with options.out.open("a") as out:
        def say(**told):
            out.write(json.dumps(told) + "\n")
            out.flush()

        for place in range(begin_of(options, [it[0] for it in todo]), len(todo)):
            if time.monotonic() > until:
                break
            name, variant, run = todo[place]
            say(begin=name, place=place)
            watchdog = threading.Timer(options.limit, os._exit, (4,))
            watchdog.daemon = True
            watchdog.start()
            try:
                say(op=name, variant=variant, place=place, digest=run(), reason=None)
            except Exception as failed:
                say(op=name, variant=variant, place=place, digest=None, reason=line(failed)[:200])
                if fatal(line(failed)):
                    # A lost context hangs or fails in exit handlers.
                    os._exit(3)
            finally:
                watchdog.cancel()
    return 0


if __name__ == "__main__":
    sys.exit(main())
