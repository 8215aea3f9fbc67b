"""A plugin of pytest: what PyTorch itself computes on the device is computed on the host.

PyTorch's own kernels are machine code, which a worker without a GPU has no use for. Triton's tests make
their data with them, and compare their results. Here such an operation takes its operands' memory to
the host, is done there, and brings back what it made or changed; the kernels under test are launched as
ever. Memory, copies, views, streams and events stay PyTorch's on the device.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

ATEN = torch.ops.aten
#: Operations that are memory or nothing but a way to look at it.
OF_THE_DEVICE = {ATEN.empty, ATEN.empty_strided, ATEN.empty_like, ATEN.new_empty, ATEN.new_empty_strided,
                 ATEN.record_stream, ATEN.is_pinned, ATEN.set_, ATEN.lift_fresh, ATEN.detach,
                 # The copy of one number.
                 ATEN._local_scalar_dense}


def _on_device(it):
    return isinstance(it, torch.Tensor) and it.is_cuda


def _is_device(it):
    return isinstance(it, (torch.device, str)) and torch.device(it).type == "cuda"


class OnHost(TorchDispatchMode):
    """Does the operations of a thread on the host where they would need kernels."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        flat = []
        tree_map(flat.append, (args, kwargs))
        target = kwargs.get("device")
        if not any(map(_on_device, flat)) and not _is_device(target):
            return function(*args, **kwargs)
        if function.overloadpacket in OF_THE_DEVICE or function.is_view:
            return function(*args, **kwargs)
        return self._done(function, args, kwargs, flat)

    @staticmethod
    def _done(function, args, kwargs, flat):
        copies = {}

        def brought(it):
            """An operand on the host, at its place in a copy of all the memory that it is part of."""
            if isinstance(it, torch.Generator):
                return None
            if not _on_device(it):
                return it
            storage = it.untyped_storage()
            if storage.data_ptr() not in copies:
                copies[storage.data_ptr()] = _bytes(storage).cpu()
            memory = copies[storage.data_ptr()].untyped_storage()
            here = torch.empty(0, dtype=it.dtype)
            return here.set_(memory, it.storage_offset(), it.size(), it.stride())

        target = kwargs.get("device")
        if target is not None:
            kwargs["device"] = "cpu"
            to_device = _is_device(target)
        else:
            to_device = any(map(_on_device, flat))
        result = function(*tree_map(brought, args), **tree_map(brought, kwargs))
        changed = _changed(function, args, kwargs)
        for it in changed:
            if _on_device(it):
                storage = it.untyped_storage()
                _bytes(storage).copy_(copies[storage.data_ptr()])
        if changed and isinstance(result, torch.Tensor):
            return changed[0]
        return tree_map(_taken, result) if to_device else result


def _bytes(storage):
    """All of a piece of the device's memory."""
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage)


def _taken(it):
    """A result on the device, laid out as it is."""
    if not isinstance(it, torch.Tensor) or it.is_cuda:
        return it
    storage = it.untyped_storage()
    memory = torch.empty(storage.nbytes(), dtype=torch.uint8, device="cuda")
    memory.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    there = torch.empty(0, dtype=it.dtype, device="cuda")
    return there.set_(memory.untyped_storage(), it.storage_offset(), it.size(), it.stride())


def _changed(function, args, kwargs):
    """The operands that an operation writes to, as it declares."""
    found = []
    for at, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            it = kwargs.get(argument.name) if argument.kwarg_only else args[at] if at < len(args) else None
            found.extend(it if isinstance(it, (list, tuple)) else [it])
    return [it for it in found if isinstance(it, torch.Tensor)]


def pytest_configure():
    OnHost().__enter__()
