"""Free memory goes back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from eagle_tui.ui import memory

GIVES_BACK = """
import ctypes, os
from eagle_tui.ui import memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
# Small enough for the heap; the last one stays and keeps the heap from shrinking by itself.
blocks = [libc.malloc(65536) for _ in range(512)]
for block in blocks:
    ctypes.memset(block, 1, 65536)
for block in blocks[:-1]:
    libc.free(block)
before = resident()
memory.give_back()
print(before - resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_is_free_between_two_used_blocks_goes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVES_BACK], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 16 << 20


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    memory._trim.cache_clear()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    memory.give_back()
    memory._trim.cache_clear()
