"""tinygrad's other functions, in every type it has."""

import numpy as np

from harness.case import close, integers, uniform
from harness.tinygrad_ptx import Tensor, case, dtypes

x, y = uniform((16, 48), -3, 3), uniform((16, 48), 0.1, 3)
h, d = uniform((16, 48), -3, 3, "float16"), uniform((16, 48), -3, 3, "float64")
k, b = integers((16, 48), -100, 100), integers((16, 48), 0, 2, "uint8")
l = integers((16, 48), -(10**12), 10**12, "int64")
v, w, hv = (buffer.shaped.astype(float) for buffer in (x, y, h))
dv, kv = d.shaped, k.shaped
windows = np.lib.stride_tricks.sliding_window_view(v, (3, 3)).mean((2, 3))[None, None]

case("mish", lambda x: x.mish(), [x], close(v * np.tanh(np.log1p(np.exp(v))), 1e-4))
case("elu", lambda x: x.elu(), [x], close(np.where(v > 0, v, np.expm1(v)), 1e-5))
case("hardswish", lambda x: x.hardswish(), [x], close(v * np.clip(v + 3, 0, 6) / 6, 1e-5))
case("sigmoid", lambda x: x.sigmoid(), [x], close(1 / (1 + np.exp(-v)), 1e-5))
case("hyperbolic_tangent", lambda x: x.tanh(), [x], close(np.tanh(v), 1e-5))
case("tangent", lambda x: (x * 0.3).tan(), [x], close(np.tan(v * 0.3), 1e-4))
case(
    "inverse_trigonometry",
    lambda x: (x * 0.3).asin() + (x * 0.3).acos() + x.atan(),
    [x],
    close(np.arcsin(v * 0.3) + np.arccos(v * 0.3) + np.arctan(v), 1e-3),
)
case("logarithms", lambda y: y.log() + y.log10(), [y], close(np.log(w) + np.log10(w), 1e-5))
case("exponential", lambda x: x.exp(), [x], close(np.exp(v), 1e-5))
case(
    "hyperbolic",
    lambda x: x.sinh() + x.cosh() + x.asinh(),
    [x],
    close(np.sinh(v) + np.cosh(v) + np.arcsinh(v), 1e-4),
)
case("general_power", lambda x, y: y.pow(x), [x, y], close(w**v, 1e-4))
case(
    "quotient",
    lambda x, y: x / y + x.maximum(y) - x.minimum(y),
    [x, y],
    close(v / w + abs(v - w), 1e-5),
)
case("remainder", lambda x: x % 7, [k], kv % 7)
case("float_remainder", lambda x, y: x % y, [x, y], close(np.mod(v, w), 1e-4))
case(
    "half_gelu",
    lambda x: x.gelu(),
    [h],
    close(0.5 * hv * (1 + np.tanh(0.7978845608 * (hv + 0.044715 * hv**3))), 5e-3),
)
case(
    "half_log",
    lambda x: (x.abs() + 1).log2() + x.sin(),
    [h],
    close(np.log2(abs(hv) + 1) + np.sin(hv), 5e-3),
)
case("half_sum", lambda x: x.sum(1), [h], close(hv.sum(1), 1e-2))
case("double_sum", lambda x: x.sum(0) * 2 + x.max(0), [d], close(dv.sum(0) * 2 + dv.max(0), 1e-13))
case("double_quotient", lambda x: (x * 0 + 1) / (x.abs() + 1), [d], close(1 / (abs(dv) + 1), 1e-13))
case(
    "logical_not",
    lambda b: (b == 1).logical_not().cast(dtypes.float).sum(1),
    [b],
    (b.shaped == 0).sum(1).astype(np.float32),
)
case("long_division", lambda l: l // 1000 + (l % 77), [l], l.shaped // 1000 + l.shaped % 77)
case("long_to_float", lambda l: l.cast(dtypes.float), [l], l.shaped.astype(np.float32))
case(
    "half_to_int",
    lambda h: (h * 10).cast(dtypes.int32),
    [h],
    np.trunc((h.shaped * np.float16(10)).astype(float)),
)
case(
    "byte", lambda b: (b * 200 + 77).cast(dtypes.uint8), [b], (b.shaped * 200 + 77).astype(np.uint8)
)
case(
    "joined",
    lambda x, y: x.cat(y, dim=1).flip(0),
    [x, y],
    np.concatenate([x.shaped, y.shaped], 1)[::-1],
)
case(
    "stacked",
    lambda x, y: Tensor.stack(x, y).permute(2, 0, 1),
    [x, y],
    np.stack([x.shaped, y.shaped]).transpose(2, 0, 1),
)
case("rolled", lambda x: x.roll(5, 1), [x], np.roll(x.shaped, 5, 1))
case("triangles", lambda x: x.tril() + x.triu(2), [x], np.tril(x.shaped) + np.triu(x.shaped, 2))
case(
    "gathered",
    lambda x, i: x.gather(1, i.abs() % 48),
    [x, k],
    np.take_along_axis(x.shaped, abs(kv) % 48, 1),
)
case("top_k", lambda x: x.topk(5)[0], [x], -np.sort(-x.shaped, 1)[:, :5])
case("cummax", lambda x: x.cummax(1)[0], [x], np.maximum.accumulate(x.shaped, 1))
case("cumprod", lambda x: x.cumprod(0), [x], close(np.cumprod(v, 0), 1e-4))
case("spread", lambda x: x.var(1), [x], close(v.var(1, ddof=1), 1e-4))
case("logsumexp", lambda x: x.logsumexp(1), [x], close(np.log(np.exp(v).sum(1)), 1e-5))
case("einsum", lambda x, y: Tensor.einsum("ij,kj->ik", x, y), [x, y], close(v @ w.T, 3e-2))
case(
    "masked",
    lambda x: x.masked_fill(x > 1, -5),
    [x],
    np.where(x.shaped > 1, np.float32(-5), x.shaped),
)
case("is_nan", lambda x: (x.log().isnan()), [x], np.isnan(np.log(np.where(v < 0, np.nan, abs(v)))))
case("argsort", lambda x: x.argsort(1), [x], np.argsort(x.shaped, 1, kind="stable"))
case(
    "squared_error", lambda x, y: ((x - y) ** 2).mean(), [x, y], close(((v - w) ** 2).mean(), 1e-5)
)
case(
    "scatter",
    lambda x: Tensor.zeros(16, 48)
    .contiguous()
    .scatter(1, Tensor.arange(48).reshape(1, 48).expand(16, 48).flip(1), x),
    [x],
    x.shaped[:, ::-1],
)
case(
    "averages",
    lambda x: x.reshape(1, 1, 16, 48).avg_pool2d((3, 3), stride=1),
    [x],
    close(windows, 1e-5),
)
