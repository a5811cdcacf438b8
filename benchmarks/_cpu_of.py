"""Measures CPU seconds and memory of a program and of all processes that it starts, by kind of process."""

import ctypes
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

_SUBREAPER = 36  # prctl: orphans of our children become our children
_TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """CPU seconds and memory. ``memory``: largest in MB; the largest process, if a kind has several."""

    seconds: float
    memory: float


Look = Callable[[Mapping[str, Used]], None]


def measured(command: Sequence[str], kind_of: Callable[[str], str]) -> tuple[Counter[str], str]:
    """Return seconds by kind, and the program's output.

    ``kind_of``: kind of a process by its command line.
    """
    by_kind, output, _ = watched(command, kind_of)
    return Counter({kind: used.seconds for kind, used in by_kind.items()}), output  # type: ignore[misc]


def watched(
    command: Sequence[str | Path], kind_of: Callable[[str], str], look: Look = lambda used: None
) -> tuple[dict[str, Used], str, int]:
    """Return use by kind, the program's output and its exit status. ``look``: called ten times a second.

    A process counts with its use at the last look, at most a tenth of a second before its end.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    seen: dict[int, tuple[str, Used]] = {}
    before = set(_descendants(os.getpid()))
    with TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True) as running:
            while running.poll() is None:
                for process in set(_descendants(os.getpid())) - before:
                    words, used = seen.get(process, ("", Used(0.0, 0.0)))
                    now = _used(process) or ("", used)  # an ended process has no command line and no memory
                    seen[process] = now[0] or words, Used(now[1].seconds, max(used.memory, now[1].memory))
                look(_by_kind(seen, kind_of))
                time.sleep(0.1)
        output.seek(0)
        return _by_kind(seen, kind_of), output.read(), running.returncode


def _by_kind(seen: Mapping[int, tuple[str, Used]], kind_of: Callable[[str], str]) -> dict[str, Used]:
    by_kind: dict[str, Used] = {}
    for words, used in seen.values():
        others = by_kind.get(kind_of(words), Used(0.0, 0.0))
        together = Used(others.seconds + used.seconds, max(others.memory, used.memory))
        by_kind[kind_of(words)] = together
    return by_kind


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    by_kind, open_ = list[int](), [root]
    while open_:
        more = children.get(open_.pop(), [])
        by_kind += more
        open_ += more
    return by_kind


def _used(process: int) -> tuple[str, Used] | None:
    """Return command line and use of a process; None if it ended."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ")
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    largest = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    memory = int(largest[0]) / 1000 if largest else 0.0
    return words, Used((int(fields[11]) + int(fields[12])) / _TICKS, memory)
