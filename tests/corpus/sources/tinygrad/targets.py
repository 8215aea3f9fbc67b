"""tinygrad for Turing: its tensor cores have other shapes, and half precision lacks some opcodes."""

import os

os.environ["WARPLOOM_CORPUS_ARCH"] = "sm_75"

import numpy as np  # noqa: E402

from harness.case import close, uniform  # noqa: E402
from harness.tinygrad_ptx import case, dtypes  # noqa: E402

a, b = uniform((32, 48), dtype="float16"), uniform((48, 32), dtype="float16")
want = a.shaped.astype(float) @ b.shaped.astype(float)
case("turing_matmul", lambda x, y: x.matmul(y, dtype=dtypes.float), [a, b], close(want, 1e-4))
x = uniform((20, 30), -4, 4, "float16")
v = x.shaped.astype(float)
s = np.exp(v - v.max(1, keepdims=True))
case("turing_softmax", lambda x: x.softmax(), [x], close(s / s.sum(1, keepdims=True), 4e-3))
case("turing_maximum", lambda x: x.max(1) + x.relu().sum(1), [x],
     close(v.max(1) + np.maximum(v, 0).sum(1), 3e-3))
case("turing_exp", lambda x: x.exp2() * x.sqrt().isnan().where(1, 2), [x],
     close(np.exp2(v) * np.where(v < 0, 1, 2), 2e-3))
