"""Resident memory of a process and all that it started, sampled from /proc while a test runs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.2  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Peak:
    """Bytes. ``tree``: of all processes; what they share counts for each. ``daemon``: of the first one."""

    daemon: int = 0
    tree: int = 0


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Samples until the end of the block."""
    peak, over = Peak(), threading.Event()

    def sample() -> None:
        while not over.is_set():
            sizes = [_resident(one) for one in _tree(pid)]
            peak.daemon, peak.tree = max(peak.daemon, sizes[0]), max(peak.tree, sum(sizes))
            over.wait(_EVERY)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended in between
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
