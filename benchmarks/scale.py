"""Many small files (100,000 by default): processor time and memory of passes and commands, and sizes.

Chroma is a separate server; its processor time and memory are reported separately.

``python -m benchmarks scale 2000 8000 32000`` repeats everything at each size, and fits the growth of each
figure. The growth is the slope of a figure's logarithm over that of the number of files, after subtracting a
project of one file; 1 is linear. The hashing embedder is used, so everything except the model is measured.
Two baselines are the cost of listing and reading the same files, and of writing the same records by Chroma's
own client. Commands have Chroma in their own process; one pass uses a server, and counts its own share only.
"""

import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import chromadb
import yaml

from benchmarks._cpu_of import Look, Used, watched

INGESTOR = Path(sys.executable).with_name("ingestor")
HNSW = ("space", "max_neighbors", "ef_construction", "ef_search")
BATCH = 1000  # records
SMALL = 0.5  # seconds or MB above the project of one file; smaller figures show no growth


class Figure(NamedTuple):
    value: float
    unit: str


Figures = Mapping[str, Figure]


def main(files: int = 100_000, second: int = 0, third: int = 0, fourth: int = 0) -> None:
    """Print a table; 100,000 files take some minutes. Further numbers are further sizes."""
    measured = {files: _at(files) for files in (files, second, third, fourth) if files}
    if len(measured) == 1:
        [(files, figures)] = measured.items()
        for name, (value, unit) in figures.items():
            print(f"{name:44} {value:10,.1f} {unit:4} {value / files * 1e6:12,.1f} a million files")
        return
    least = _at(1)
    print(f"{'':44} {'unit':4} {'1':>9} " + " ".join(f"{files:>9,}" for files in measured) + "   grows as")
    for name, (base, unit) in least.items():
        values = [figures[name].value for figures in measured.values()]
        numbers = " ".join(f"{value:9,.1f}" for value in values)
        print(f"{name:44} {unit:4} {base:9,.1f} {numbers}   {growth(list(measured), values, base)}")


def growth(sizes: Sequence[int], values: Sequence[float], base: float) -> str:
    """Return the power of the number of files, fitted to a figure minus ``base``."""
    points = [
        (math.log(size), math.log(value - base))
        for size, value in zip(sizes, values, strict=True)
        if value - base > SMALL
    ]
    if len(points) < 2:
        return "not at all, as far as is seen"
    middle = [sum(column) / len(points) for column in zip(*points, strict=True)]
    across = sum((x - middle[0]) ** 2 for x, _ in points)
    return f"files ^ {sum((x - middle[0]) * (y - middle[1]) for x, y in points) / across:.2f}"


def _at(files: int) -> Figures:
    folder = Path(tempfile.mkdtemp(prefix="ingestor-scale-"))
    try:
        return dict(_measured(folder, files))
    finally:
        shutil.rmtree(folder)


def _measured(folder: Path, files: int) -> Iterator[tuple[str, Figure]]:
    docs, config = folder / "docs", folder / "config.yaml"
    for n in range(files):
        if n % 500 == 0:
            (docs / f"{n // 500}").mkdir(parents=True)
        path = docs / f"{n // 500}" / f"{n}.txt"
        path.write_text(f"Document {n} is about subject {n % 977} and mentions {n * 31 % 1009} others.")
    configure(config)
    yield "list and read the files, bare", Figure(_bare(docs), "s")
    yield from run("plan of everything, as a sample of 1,000", config, "plan", "--sample", "1000")
    yield from run("first pass", config, "sync")
    yield from run("restart and idle pass", config, "sync")
    (docs / "0" / "new.txt").write_text("one more document")
    yield from run("one new file", config, "sync")
    for command in ("status", "plan", "verify"):
        yield from run(command, config, command)
    yield from run("query", config, "query", "which document mentions the others")
    configure(config, workers=8)
    yield from run("a config change that touches none", config, "sync")
    for name in ("state/journal.sqlite3", "state/cache.sqlite3", "state/lexical.sqlite3", "chroma"):
        yield name, Figure(_size(folder / name) / 1e6, "MB")
    configure(config, chunking={"strategy": "recursive", "size": 50})
    yield from run("a config change that touches all", config, "sync")
    yield "upserts of the same records, bare", Figure(_raw_upserts(folder), "s")
    for name in ("state", "chroma"):
        shutil.rmtree(folder / name)
    configure(config, chroma={"path": "./chroma", "port": _free_port()})
    yield "first pass beside a server of Chroma", Figure(_alone(config, "sync"), "s")


def configure(config: Path, **settings: object) -> None:
    source = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    base = {
        "state": "./state",
        "chroma": {"path": "./chroma"},
        "embedding": {"kind": "hashing", "dimensions": 64},
        "sources": [source],
    }
    config.write_text(yaml.safe_dump(base | settings))


def run(
    name: str,
    config: Path,
    *words: str,
    program: Sequence[str | Path] = (INGESTOR,),
    look: Look = lambda used: None,
    statuses: Sequence[int] = (0,),
) -> Iterator[tuple[str, Figure]]:
    """Yield processor seconds and largest memory of a command, and those of its Chroma.

    ``look``: see ``watched``. ``statuses``: accepted exit statuses.
    """
    command = [*program, *words, "--json", "--config", config]
    used, output, status = watched(command, kind_of, look)
    if status not in statuses:
        raise subprocess.CalledProcessError(status, command, output)
    ours, theirs = used["program"], used.get("Chroma", Used(0.0, 0.0))
    yield name, Figure(ours.seconds + theirs.seconds, "s")
    yield f"{name}, in Chroma", Figure(theirs.seconds, "s")
    yield f"{name}, memory", Figure(ours.memory, "MB")
    yield f"{name}, memory of Chroma", Figure(theirs.memory, "MB")


def kind_of(words: str) -> str:
    return "Chroma" if "chroma/child.py" in words else "program"


def _alone(config: Path, *words: str) -> float:
    """Return the processor seconds of a command, without the processes that it starts."""
    script = (
        "import atexit, sys, time\n"
        "atexit.register(lambda: print(time.process_time(), file=sys.stderr))\n"
        "from ingestor.cli.main import main\n"
        "main()"
    )
    command = [sys.executable, "-c", script, *words, "--json", "--config", config]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return float(ended.stderr.splitlines()[-1])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _bare(folder: Path) -> float:
    """Return the processor seconds for listing and reading the files."""
    begun = time.process_time()
    for path, _, names in os.walk(folder):
        for name in names:
            Path(path, name).read_bytes()
    return time.process_time() - begun


def _raw_upserts(folder: Path) -> float:
    """Return the processor seconds of Chroma's client in this process, without reading the records."""
    theirs = chromadb.PersistentClient(str(folder / "chroma")).get_collection("docs")
    hnsw = {key: theirs.configuration["hnsw"][key] for key in HNSW}
    client = chromadb.PersistentClient(str(folder / "raw"))
    ours = client.create_collection("docs", configuration={"hnsw": hnsw})
    seconds = 0.0
    for start in range(0, theirs.count(), BATCH):
        page = theirs.get(limit=BATCH, offset=start, include=["documents", "metadatas", "embeddings"])
        begun = time.process_time()
        ours.upsert(**{key: page[key] for key in ("ids", "documents", "metadatas", "embeddings")})
        seconds += time.process_time() - begun
    return seconds


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(_size(child) for child in path.iterdir())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
