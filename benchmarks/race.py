"""The whole program against its bare engine, LangChain, LlamaIndex and CocoIndex, on the same chunks.

``python -m benchmarks race [CHUNKS] [ROUNDS]`` takes minutes (5,000 chunks by default), and makes an
environment with the other packages (race-requirements.txt, 2 GB) under .cache at its first run. The documents
are those inside Python's own library (_docstrings.py), cut by ``recursive`` at 200 tokens. ``ingestor sync``
starts cold, reads and cuts them, and ends with its processes. The bare engine is the same embedder with the
same threads in a process of its own, which gets all texts at once; its start and its first batches do not
count. The others start cold, too, and get the chunks of ``sync``, so that they need not read and cut
(_racers.py). All take turns, each result is printed as it completes, and the best round of each counts. On a
busy machine compare only processor seconds and ratios.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import chromadb
import yaml

from benchmarks import _docstrings
from benchmarks._needs import Missing, failure
from benchmarks.start import free_port

INGESTOR = Path(sys.executable).with_name("ingestor")
FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "race-requirements.txt"
TORCH = "torch==2.13.0"  # installed first and alone: otherwise pip may fetch the CUDA build
PEERS = {
    "langchain": "LangChain, index()",
    "llamaindex": "LlamaIndex, pipeline",
    "cocoindex": "CocoIndex, LanceDB",
}
OURS, BARE = "ingestor sync", "its bare engine"
CHARACTERS = 700  # of a chunk, approximately
GOALS = {
    BARE: 0.85,
    PEERS["langchain"]: 4.0,
    PEERS["llamaindex"]: 3.0,
}  # least factor by which ingestor is faster
QUIET = {"HF_HUB_OFFLINE": "1", "COCOINDEX_DISABLE_USAGE_TRACKING": "1", "ANONYMIZED_TELEMETRY": "False"}

Cost = tuple[float, float]  # seconds on the clock and of the processor


def main(chunks: int = 5000, rounds: int = 1) -> None:
    """Print a line for each result as it completes, then a table."""
    python = environment()
    with tempfile.TemporaryDirectory(prefix="ingestor-race-") as folder:
        documents = Path(folder) / "docs"
        files = _docstrings.write(documents, chunks * CHARACTERS)
        turns = [turn(Path(folder) / str(number), documents, python) for number in range(rounds)]
    best = {
        name: tuple(min(each[name][part] for each, _ in turns) for part in (0, 1)) for name in turns[0][0]
    }
    report(best, files, turns[0][1])


def environment() -> Path:
    """Return the interpreter that has the other packages."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:8]
    home = FOLDER.parent / ".cache" / "race-venv" / key
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        try:
            for wanted in ((TORCH,), ("-r", str(REQUIREMENTS))):
                install = [python, "-m", "pip", "install", "--quiet", *wanted]
                subprocess.run(install, check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Missing(f"the packages of {REQUIREMENTS} cannot be installed: {failure(error)}") from error
        ready.touch()
    return python


def turn(folder: Path, documents: Path, python: Path) -> tuple[dict[str, Cost], int]:
    """Run every system once. Return the costs, and the number of chunks."""
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(documents)))
    costs: dict[str, Cost] = {}
    finished(costs, OURS, timed(str(INGESTOR), "sync", "--json", "--config", str(config)))
    texts = folder / "chunks.json"
    number = keep_chunks(folder / "chroma", texts)
    bare = subprocess.run(
        [sys.executable, "-m", "benchmarks._bare", texts],
        cwd=FOLDER.parent,
        check=True,
        stdout=subprocess.PIPE,
    )
    finished(costs, BARE, tuple(json.loads(bare.stdout)))
    for name, title in PEERS.items():
        own = folder / name
        own.mkdir()
        command = (str(python), str(FOLDER / "_racers.py"), name, str(texts), str(own))
        finished(costs, title, timed(*command))
    return costs, number


def finished(costs: dict[str, Cost], name: str, cost: Cost) -> None:
    """Store and print a result at once, since all of them together take long."""
    costs[name] = cost
    print(f"{name}: {cost[0]:.1f} s, {cost[1]:.1f} s of work", flush=True)


def configuration(documents: Path) -> dict[str, object]:
    return {
        "state": "./state",
        "chroma": {"path": "./chroma", "port": free_port()},
        "chunking": {"strategy": "recursive", "size": 200},
        "sources": [{"name": "docs", "kind": "folder", "path": str(documents), "collection": "docs"}],
    }


def timed(*command: str) -> Cost:
    """Run a command to its end. Processor seconds include its children."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, env={**os.environ, **QUIET})
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def keep_chunks(chroma: Path, path: Path) -> int:
    """Write the collection's chunks by document, in order, to a file. Return their number."""
    collection = (
        chromadb.PersistentClient(str(chroma)).get_collection("docs").get(include=["documents", "metadatas"])
    )
    texts: dict[str, dict[int, str]] = {}
    for text, metadata in zip(collection["documents"] or [], collection["metadatas"] or [], strict=True):
        texts.setdefault(str(metadata["source"]), {})[int(str(metadata["chunk_index"]))] = text
    ordered = {key: [parts[at] for at in sorted(parts)] for key, parts in sorted(texts.items())}
    path.write_text(json.dumps(ordered), "utf-8")
    return len(collection["ids"])


def report(best: dict[str, Cost], files: int, chunks: int) -> None:
    print(f"\n{chunks:,} chunks of {files} files\n")
    print("| | chunks a second | a second of work | ours is so many times as fast | by work | goal |")
    print("|---|---|---|---|---|---|")
    for name, costs in best.items():
        rates = " | ".join(f"{chunks / cost:.1f}" for cost in costs)
        ratios = " | ".join(f"{cost / ours:.2f}" for cost, ours in zip(costs, best[OURS], strict=True))
        print(f"| {name} | {rates} | {ratios} | {GOALS.get(name, '')} |")
