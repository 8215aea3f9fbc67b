"""Every public name of `triton.language`: which test it is in, or why a device of 8.0 has nothing to test."""

import importlib
import inspect
import pathlib
import re

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import refused, same
from kinds import FP32, INT32

HERE = pathlib.Path(__file__).parent

#: Tests, and the names that are in their kernels.
TESTS = {
    "test_math.test_exp": "exp", "test_math.test_exp2": "exp2", "test_math.test_log": "log",
    "test_math.test_log2": "log2", "test_math.test_sin": "sin", "test_math.test_cos": "cos",
    "test_math.test_sqrt": "sqrt", "test_math.test_sqrt_rn": "sqrt_rn", "test_math.test_rsqrt": "rsqrt",
    "test_math.test_erf": "erf", "test_math.test_floor": "floor", "test_math.test_ceil": "ceil",
    "test_math.test_abs": "abs", "test_math.test_sigmoid": "sigmoid", "test_math.test_fma": "fma",
    "test_math.test_umulhi": "umulhi", "test_math.test_division_of_float32": "fdiv div_rn",
    "test_arithmetic.test_functions_of_arithmetic": "add sub mul", "test_arithmetic.test_cdiv": "cdiv",
    "test_arithmetic.test_extremes": "minimum maximum PropagateNan", "test_arithmetic.test_clamp": "clamp",
    "test_arithmetic.test_where": "where",
    "test_conversions.test_cast_is_the_same": "cast", "test_conversions.test_pointers_and_integers": "pointer_type",
    "test_conversions.test_types_of_other_devices_are_refused": "float8e4nv float8e4b8 float8e5b16",
    "test_memory.test_copy": "load store", "test_memory.test_block_pointers_are_gone": "make_block_ptr",
    "test_memory.test_descriptors_made_by_kernels": "make_tensor_descriptor",
    "test_memory.test_descriptors_at_edges": "load_tensor_descriptor store_tensor_descriptor",
    "test_shapes.test_arange": "arange", "test_shapes.test_full_and_zeros": "full zeros zeros_like",
    "test_shapes.test_permute": "permute", "test_shapes.test_trans": "trans",
    "test_shapes.test_reshape": "reshape view ravel",
    "test_shapes.test_broadcast": "broadcast broadcast_to expand_dims squeeze unsqueeze",
    "test_shapes.test_join_split_interleave": "join split interleave", "test_shapes.test_cat": "cat",
    "test_shapes.test_swizzle2d": "swizzle2d",
    "test_reductions.test_sum": "sum", "test_reductions.test_extremes": "max min",
    "test_reductions.test_where_extremes_are": "argmax argmin", "test_reductions.test_bits": "xor_sum reduce_or",
    "test_reductions.test_functions_of_ones_own": "reduce", "test_reductions.test_softmax": "softmax",
    "test_order.test_cumsum": "cumsum", "test_order.test_cumprod": "cumprod",
    "test_order.test_associative_scan": "associative_scan", "test_order.test_sort": "sort",
    "test_order.test_topk": "topk", "test_order.test_bitonic_merge": "bitonic_merge", "test_order.test_flip": "flip",
    "test_order.test_histogram": "histogram", "test_order.test_gather": "gather",
    "test_random.test_randint": "randint", "test_random.test_randint4x": "randint4x",
    "test_random.test_philox": "philox", "test_random.test_philox_impl": "philox_impl",
    "test_random.test_uint_to_uniform_float": "uint_to_uniform_float", "test_random.test_rand": "rand rand4x",
    "test_random.test_randn": "randn randn4x", "test_random.test_pair_uniform_to_normal": "pair_uniform_to_normal",
    "test_dot.test_dot": "dot", "test_dot.test_dot_scaled": "dot_scaled",
    "test_atomics.test_elements_that_meet": "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor",
    "test_atomics.test_xchg": "atomic_xchg", "test_atomics.test_cas": "atomic_cas",
    "test_atomics.test_load_and_store": "atomic_load atomic_store", "test_atomics.test_poll": "atomic_poll",
    "test_control.test_programs": "program_id num_programs", "test_control.test_loops": "range static_range",
    "test_control.test_while_loops_over_blocks": "condition", "test_control.test_barriers": "debug_barrier",
    "test_control.test_hints_to_the_compiler": "assume multiple_of max_contiguous max_constancy",
    "test_control.test_map_elementwise": "map_elementwise",
    "test_output.test_print": "device_print", "test_output.test_assertions": "device_assert",
    "test_output.test_expect_zero": "expect_zero",
    "test_output.test_while_it_is_compiled": "static_print static_assert",
    "test_functions.test_constants": "constexpr", "test_functions.test_aggregates": "aggregate_replace tensor",
    "test_functions.test_types": "block_type to_tensor", "test_functions.test_annotated_arguments": "const",
    "test_functions.test_inline_assembly": "inline_asm_elementwise", "test_functions.test_target": "target_info",
    "test_names.test_the_largest_block": "TRITON_MAX_TENSOR_NUMEL",
    "test_names.test_types_that_are_values": "dtype void pi32_t tuple slice str_to_ty",
    "test_names.test_types_of_values": "constexpr_type tuple_type tensor_descriptor tensor_descriptor_type",
}

#: The types of the tests, by the names that they have in `kinds`.
TYPES = """int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8e5
float8e4b15""".split()

#: Modules: what is public in them is under the names above, or is tested by name.
MODULES = ["core", "math", "random", "standard", "semantic", "extra"]


def _covered():
    return {name: test for test, names in TESTS.items() for name in names.split()}


def test_every_public_name_is_listed():
    """A new version's new names fail here until there is a test of them."""
    importlib.import_module("triton.language.semantic")
    listed = {*_covered(), *TYPES, *MODULES}
    assert {name for name in dir(tl) if not name.startswith("_")} - listed == set()
    assert listed - set(dir(tl)) == set()
    assert set(tl.__all__) - listed == set()


def _source(module):
    path = HERE / f"{module}.py"
    # Two kernels are in a program of their own.
    return path.read_text() + ((HERE / "asserts.py").read_text() if module == "test_output" else "")


@pytest.mark.parametrize("name", sorted(_covered()))
def test_the_tests_are_there(name):
    module, function = _covered()[name].split(".")
    assert inspect.isfunction(getattr(importlib.import_module(module), function))
    text = _source(module)
    assert re.search(rf"\btl\.(target_info|{name})\b" if name == "target_info" else
                     rf"(\btl\.{name}\b|\"{name}\")", text), f"{name} is not used in {module}"


@pytest.mark.parametrize("name", TYPES)
def test_the_types_are_there(name):
    import kinds
    assert isinstance(getattr(tl, name), tl.dtype)
    assert kinds.BY_NAME[name].bits == max(getattr(tl, name).primitive_bitwidth, 8)


def test_public_names_of_modules():
    """What `tl.math` and `tl.random` have is in `tl` as well; of `extra` CUDA's part is asked for."""
    for module in (tl.math, tl.random):
        own = {name for name, it in vars(module).items()
               if callable(it) and getattr(it, "__module__", "") == module.__name__ and not name.startswith("_")
               and name != "T"}
        assert own - set(dir(tl)) == set()
    # The last three are of compute capability 7.0 and of 9.0.
    assert set(tl.extra.cuda.__all__) == {
        "libdevice", "globaltimer", "num_threads", "num_warps", "smid", "convert_custom_float8_sm80",
        "convert_custom_float8_sm70", "gdc_launch_dependents", "gdc_wait"}


def test_methods_of_blocks():
    """What can be called on a block is what can be called by its name, and six things more."""
    methods = {name for name in dir(tl.tensor) if not name.startswith("_")}
    assert methods - set(dir(tl)) == {"T", "advance", "item", "logical_and", "logical_or", "to"}


@triton.jit
def _methods(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, value.exp() + value.sqrt().sum() + value.cumsum() + value.abs().max(0) + value.to(tl.int32))
    tl.store(out + BLOCK + at, value.reshape((2, BLOCK // 2)).trans().ravel().flip())
    tl.store(out + 2 * BLOCK + at, (value > 3).logical_and(value < 9).logical_or(value == 0).to(tl.float32))


def test_methods_give_what_functions_give(memory):
    x = np.arange(32, dtype=np.float32) / 4
    out = memory.room(FP32, 96)
    memory.launch(_methods, (1,), out, memory.put(FP32, x), 32)
    got = memory.get(out, (3, 32))
    want = np.exp(x) + np.sqrt(x).sum() + x.cumsum() + x.max() + np.trunc(x)
    np.testing.assert_allclose(got[0], want, rtol=1e-5)
    same(got[1], x.reshape(2, 16).T.reshape(-1)[::-1])
    same(got[2], (((x > 3) & (x < 9)) | (x == 0)).astype(np.float32))


@triton.jit
def _large(out, SIZE: tl.constexpr):
    tl.store(out + tl.arange(0, SIZE), 1)


def test_the_largest_block(memory):
    """`tl.TRITON_MAX_TENSOR_NUMEL` elements are the most that a block has."""
    assert tl.TRITON_MAX_TENSOR_NUMEL == 1 << 20
    with refused("numel (2097152) exceeds triton maximum"):
        memory.launch(_large, (1,), memory.room(INT32, 1), 2 * tl.TRITON_MAX_TENSOR_NUMEL)


@triton.jit
def _values(out, x, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(isinstance(TYPE, tl.dtype))
    tl.static_assert(x.dtype == tl.pointer_type(tl.int32))
    pair = tl.tuple((tl.load(x), tl.load(x + 1)))
    tl.store(out, (pair[0] + pair[1]).to(TYPE))
    # A slice of everything, and a new axis.
    at = tl.arange(0, BLOCK)
    tl.store(out + 1 + at[None, :], at[None, :])


def test_types_that_are_values(memory):
    """`tl.dtype` and `tl.tuple` in a kernel; `tl.void`, `tl.pi32_t`, `tl.slice` and `tl.str_to_ty` by what they are."""
    out = memory.room(INT32, 33)
    memory.launch(_values, (1,), out, memory.put(INT32, [40, 2]), tl.int32, 32)
    same(memory.get(out), np.append(42, np.arange(32)).astype(np.int32))
    assert tl.pi32_t == tl.pointer_type(tl.int32) and tl.void.name == "void"
    assert tl.str_to_ty("*fp16", None) == tl.pointer_type(tl.float16)
    assert tl.slice(None, None, None).type.name == "slice_type"


def test_types_of_values():
    """What the compiler takes for the type of a value: `tl.constexpr_type`, `tl.tuple_type`, a descriptor's."""
    assert tl.constexpr_type(5) == tl.constexpr(5).type
    assert tl.tuple_type([tl.int32, tl.float16]) == tl.str_to_ty(("i32", "fp16"), None)
    described = tl.str_to_ty("tensordesc<fp16[16, 32]>", None)
    assert isinstance(described, tl.tensor_descriptor_type) and described.block_type.shape == [16, 32]
    assert issubclass(tl.tensor_descriptor, tl.core.tensor_descriptor_base)
