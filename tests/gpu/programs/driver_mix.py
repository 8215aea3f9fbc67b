"""The driver by ctypes: a kernel of PTX, compared with the same arithmetic in Python."""

import ctypes
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "servers"))
from stand_in import Driver  # noqa: E402

driver = Driver()
stream = ctypes.c_void_p()
buffer = driver.allocate(512)
driver.launch(driver.mix, 1, stream, buffer, 3, 7)
driver.call("cuCtxSynchronize")
words = (ctypes.c_uint32 * 128)()
driver.call("cuMemcpyDtoH_v2", words, buffer, ctypes.c_size_t(512))
expected = 0
for _ in range(3):
    expected = (expected * 1664525 + 7) % 2**32
assert list(words) == [expected] * 128, list(words)[:4]
print("well")
