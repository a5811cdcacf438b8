"""100,000 small files: the first pass, an idle pass, one change, memory, and the size of what is kept.

Repeat with ``python -m benchmarks scale [FILES]``. Uses the hashing embedder, so that what is measured is
everything but the model. Beside it stand the bare cost of listing and reading the same files, and that of
writing the same records by Chroma's own client, in batches, to a collection with the same settings.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import chromadb
import yaml

INGESTOR = Path(sys.executable).with_name("ingestor")
HNSW = ("space", "max_neighbors", "ef_construction", "ef_search")
BATCH = 1000  # records


def main(files: int = 100_000) -> None:
    """Prints a table; takes some minutes."""
    folder = Path(tempfile.mkdtemp(prefix="ingestor-scale-"))
    try:
        _measure(folder, files)
    finally:
        shutil.rmtree(folder)


def _measure(folder: Path, files: int) -> None:
    docs = folder / "docs"
    for n in range(files):
        if n % 500 == 0:
            (docs / f"{n // 500}").mkdir(parents=True)
        path = docs / f"{n // 500}" / f"{n}.txt"
        path.write_text(f"Document {n} is about subject {n % 977} and mentions {n * 31 % 1009} others.")
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(_config()))
    bare = _timed(lambda: _read_all(docs))
    rows = [("list and read the files, bare", bare, 0.0)]
    rows += [(name, *_sync(config)) for name in ("first pass", "idle pass")]
    (docs / "0" / "new.txt").write_text("one more document")
    rows.append(("one new file", *_sync(config)))
    raw = _raw_upserts(folder)
    for name, seconds, memory in rows:
        print(f"{name:32} {seconds:8.1f} s {files / seconds:10.0f} files/s {memory:8.0f} MB")
    print(f"{'upserts of the same records, bare':32} {raw:8.1f} s {files / raw:10.0f} files/s")
    print(f"the first pass has {raw / rows[1][1]:.0%} of the rate of bare upserts")
    for name in ("state/journal.sqlite3", "state/cache.sqlite3", "chroma"):
        size = _size(folder / name)
        print(f"{name:32} {size / 1e6:8.1f} MB {size / files:8.0f} bytes a file")


def _config() -> dict[str, object]:
    source = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    return {
        "state": "./state",
        "chroma": {"path": "./chroma", "embedded": True},
        "embedding": {"kind": "hashing", "dimensions": 64},
        "sources": [source],
    }


def _sync(config: Path) -> tuple[float, float]:
    """Wall seconds, and the largest memory of any pass so far in MB."""
    seconds = _timed(lambda: subprocess.run([INGESTOR, "sync", "--json", "--config", config], check=True))
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000


def _raw_upserts(folder: Path) -> float:
    """Seconds of the public client in this process, less those of reading the records."""
    theirs = chromadb.PersistentClient(str(folder / "chroma")).get_collection("docs")
    hnsw = {key: theirs.configuration["hnsw"][key] for key in HNSW}
    client = chromadb.PersistentClient(str(folder / "raw"))
    ours = client.create_collection("docs", configuration={"hnsw": hnsw})
    seconds = 0.0
    for start in range(0, theirs.count(), BATCH):
        page = theirs.get(limit=BATCH, offset=start, include=["documents", "metadatas", "embeddings"])
        columns = {key: page[key] for key in ("ids", "documents", "metadatas", "embeddings")}
        seconds += _timed(lambda: ours.upsert(**columns))  # noqa: B023 - it is called at once
    return seconds


def _timed(work) -> float:  # type: ignore[no-untyped-def]
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _read_all(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            Path(path, name).read_bytes()


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(_size(child) for child in path.iterdir())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
