"""Memory that was freed goes back to the system."""

import platform
from pathlib import Path

import pytest

from ingestor.app.daemon import return_freed_memory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")


def test_freed_memory_behind_used_memory_is_returned_to_system() -> None:
    blocks = [bytes(4000) for _ in range(20_000)]
    last = blocks[-1]  # the C library gives back by itself what lies behind the last block in use
    del blocks
    kept = resident()
    return_freed_memory()
    assert resident() < kept - 40 * 2**20
    assert not any(last)


def resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
