"""The parent of a thread's requests, handed to the drop-in `libcuda.so.1` of this process."""

from __future__ import annotations

import ctypes
import os
import re
import time
from typing import Callable, Optional

#: The drop-in's soname, which is that of NVIDIA's driver too.
LIBRARY = "libcuda.so.1"
#: The function of the drop-in. NVIDIA's driver has none of this name.
FUNCTION = "warploom_set_traceparent"
#: Names the folder of the drop-in; `warploom run` and `warploom env` set it.
FOLDER = "WARPLOOM_DROP_IN"
#: Seconds until a process in which the drop-in was not found is searched again.
AGAIN = 0.1

#: The fields behind the version: lower-case hex, and no ids of zeros.
_FIELDS = "-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
#: Version 00 ends behind the flags. Later versions may go on, and ff is none.
_VALID = re.compile(f"00{_FIELDS}|(?!00|ff)[0-9a-f]{{2}}{_FIELDS}(?:-[ -~]*)?")

#: The function of the drop-in, once it is found. It is kept: the drop-in is never unloaded.
_found: Optional[Callable[[Optional[bytes]], int]] = None
#: The time of the next search.
_next_search = 0.0


def set_traceparent(text: str | None) -> bool:
    """Makes a W3C `traceparent` the parent of this thread's requests from now on; None or "" ends that.

    True if the drop-in took it. False if this process has no drop-in, or an older one.

    Raises ValueError if the text is no traceparent.
    """
    if text and _VALID.fullmatch(text) is None:
        raise ValueError(f"not a W3C traceparent: {text!r}")
    result = hand_over(text.encode("ascii") if text else None)
    if result:
        raise ValueError(f"the drop-in takes no such traceparent: {text!r}")
    return result is not None


def hand_over(parent: bytes | None) -> int | None:
    """Calls the drop-in with a text that is known to be valid: its result, 0 if it took it; None without a drop-in."""
    function = _found or _search()
    return None if function is None else function(parent)


def _search() -> Optional[Callable[[Optional[bytes]], int]]:
    """The function, if the process has it; a search without success is repeated after a while.

    Two threads may search at once. They find the same, so there is no lock, and no trouble with `fork`.
    """
    global _found, _next_search
    now = time.monotonic()
    if now < _next_search:
        return None
    library = _loaded() or _drop_in()
    try:
        function = getattr(library, FUNCTION)
    except AttributeError:
        _next_search = now + AGAIN
        return None
    function.argtypes, function.restype = [ctypes.c_char_p], ctypes.c_int
    _found = function
    return function


def _open(path: str, mode: int) -> Optional[ctypes.PyDLL]:
    # The function never blocks. PyDLL keeps the interpreter's lock, so that a call costs no change of threads.
    try:
        return ctypes.PyDLL(path, mode=mode)
    except OSError:
        return None


def _loaded() -> Optional[ctypes.PyDLL]:
    """The libcuda that this process has loaded, whichever it is."""
    return _open(LIBRARY, os.RTLD_NOLOAD | os.RTLD_NOW)


def _drop_in() -> Optional[ctypes.PyDLL]:
    """The drop-in, loaded as the program would load it, and only where the program would find it.

    It has the driver's soname: once loaded, it is the program's libcuda. So it is loaded only if it comes
    first on the loader's path. The file in the wheel is never loaded: without `warploom run` it would take
    the place of a real driver.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    places = os.environ.get("LD_LIBRARY_PATH")
    for entry in places.split(":") if places else ():
        path = os.path.join(entry, LIBRARY)
        if os.path.exists(path):
            is_drop_in = os.path.realpath(entry) == os.path.realpath(folder)
            return _open(path, os.RTLD_NOW) if is_drop_in else None
    return None
