"""A million small files, and a million records of few large files: processor time, memory and sizes over
time.

``python -m benchmarks million FILES RECORDS``; 0 omits one of them. The run has no model, vectors of 64
dimensions, and few links in Chroma's graph, since the full graph takes longer than everything else. Figures
are separate for our program and Chroma. A line is printed every minute of the first pass.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks._cpu_of import Used
from benchmarks.scale import configure, run

PROGRAM = (sys.executable, Path(__file__).with_name("_few_links.py"))
FOLDER = 500  # files
LARGE = 10_000  # records of a large file
EVERY = 60.0  # seconds
LOST = 4  # exit status of ``verify`` if records are out of reach because of few links
RECORDS = {"chunking": {"strategy": "recursive", "size": 20}}


def main(files: int = 1_000_000, records: int = 1_000_000) -> None:
    """Run both parts; each takes most of an hour."""
    for number, name, make, settings in (
        (files, "files", _small_files, {}),
        (records, "records", _large_files, RECORDS),
    ):
        if number:
            with tempfile.TemporaryDirectory(prefix="ingestor-million-") as folder:
                configure(Path(folder, "config.yaml"), **settings)
                make(Path(folder, "docs"), number)
                print(f"{number:,} {name}", flush=True)
                _show(Path(folder))


def _show(folder: Path) -> None:
    print(f"{'':30} {'processor':>10} {'in Chroma':>10} {'memory':>8} {'of Chroma':>10}", end=" ")
    print(f"{'journal':>10} {'Chroma':>8}")
    _line(folder, "first pass", "sync", look=_every_minute(folder))
    _line(folder, "idle pass", "sync")
    with min((folder / "docs").rglob("*.txt")).open("a") as changed:
        changed.write("\n\nThis sentence was not there before.\n")
    _line(folder, "one edit", "sync")
    for command in ("status", "plan", "verify"):
        _line(folder, command, command)
    _line(folder, "query", "query", "which paragraph mentions the others")


def _line(
    folder: Path, name: str, *words: str, look: Callable[[Mapping[str, Used]], None] | None = None
) -> None:
    figures = run(
        name,
        folder / "config.yaml",
        *words,
        program=PROGRAM,
        look=look or (lambda used: None),
        statuses=(0, LOST),
    )
    _print(folder, name, *(figure.value for _, figure in figures))


def _every_minute(folder: Path) -> Callable[[Mapping[str, Used]], None]:
    begun, printed = time.monotonic(), 0

    def look(used: Mapping[str, Used]) -> None:
        nonlocal printed
        minutes = int((time.monotonic() - begun) / EVERY)
        if minutes > printed:
            printed = minutes
            ours, theirs = (used.get(kind, Used(0.0, 0.0)) for kind in ("program", "Chroma"))
            seconds = ours.seconds + theirs.seconds
            _print(folder, f"  minute {minutes}", seconds, theirs.seconds, ours.memory, theirs.memory)

    return look


def _print(folder: Path, name: str, seconds: float, theirs: float, memory: float, chroma: float) -> None:
    journal = sum(path.stat().st_size for path in (folder / "state").glob("journal.sqlite3*")) / 1e6
    stored = sum(path.stat().st_size for path in (folder / "chroma").rglob("*") if path.is_file()) / 1e6
    print(
        f"{name:30} {seconds:8.1f} s {theirs:8.1f} s {memory:5.0f} MB {chroma:7.0f} MB {journal:7.0f} MB "
        f"{stored:5.0f} MB",
        flush=True,
    )


def _small_files(docs: Path, number: int) -> None:
    for n in range(number):
        if n % FOLDER == 0:
            (docs / f"{n // FOLDER}").mkdir(parents=True)
        (docs / f"{n // FOLDER}" / f"{n}.txt").write_text(_paragraph(n))


def _large_files(docs: Path, records: int) -> None:
    docs.mkdir()
    for start in range(0, records, LARGE):
        numbers = range(start, min(start + LARGE, records))
        (docs / f"{start // LARGE}.txt").write_text("\n\n".join(map(_paragraph, numbers)))


def _paragraph(n: int) -> str:
    return f"Paragraph {n} is about subject {n % 977} and mentions {n * 31 % 1009} others."


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
