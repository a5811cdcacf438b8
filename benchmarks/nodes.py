"""Validates the model of many nodes: ``python -m benchmarks nodes [DOCUMENTS]``; 200 by default.

Ray indexes documents with 1, 2 and 4 processes on this machine. A waiting chunker replaces a working one, so
that processes do not compete for cores. The model gets two measurements: the daemon's CPU time for a
document, and the time of one process at the longest wait. It predicts all other rates.
"""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks._cpu_of import measured
from benchmarks._needs import Missing
from benchmarks._pipeline_model import Stages, simulated

PROCESSES = (1, 2, 4)
WAITS = (0.4, 0.1, 0.02)  # seconds
CHUNKER = """
import time
from pathlib import Path
from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.windows import Sentence, SentenceOptions
from ingestor.registry import Plugin, tuning

class WaitingOptions(ChunkerOptions):
    wait: float = tuning(0.0)
    ends: str = tuning("")

class Waiting:
    def __init__(self, options, tokens):
        self._options, self._inner = options, Sentence(SentenceOptions(), tokens)
    def chunk(self, document, embed, others):
        time.sleep(self._options.wait)
        with open(self._options.ends, "a") as ends:
            ends.write(f"{time.time()}\\n")
        return self._inner.chunk(document, embed, others)

PLUGIN = Plugin(kind="waiting", version=1, options=WaitingOptions, build=Waiting)
"""


def main(count: int = 200) -> None:
    if find_spec("ray") is None:
        raise Missing("the extra ray is not installed: pip install 'chroma-ingestor[ray]'")
    found = {(wait, processes): _run(count, wait, processes) for wait in WAITS for processes in PROCESSES}
    few, many = _run(count // 4, WAITS[-1], PROCESSES[-1])[1], found[WAITS[-1], PROCESSES[-1]][1]
    head = max(0.0, many - few) / (count - count // 4)
    besides = 1 / found[WAITS[0], 1][0] - WAITS[0]
    print(f"the daemon takes {1000 * head:.0f} ms of CPU a document, "
          f"a process {1000 * besides:.0f} ms besides the wait")  # fmt: skip
    print("wait      processes   foretold   measured, documents a second")
    for (wait, processes), (rate, _) in found.items():
        stages = Stages(head, wait + besides, 0.0, 0.0, 0.0)
        foretold = simulated(stages, processes, processes, 10 * count).per_second
        print(f"{1000 * wait:4.0f} ms {processes:13} {foretold:10.1f} {rate:10.1f}")


def _run(count: int, wait: float, processes: int) -> tuple[float, float]:
    """Return the documents a second in the second half, and the daemon's CPU seconds for all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ends = folder / "ends"
        path = [str(_plugin(folder / "plugin")), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        try:
            _configured(folder, count, wait, processes, ends)
            program = str(Path(sys.executable).with_name("ingestor"))
            used, said = measured([program, "sync", "--json", "--config", str(folder / "config.yaml")], _kind)
        finally:
            os.environ["PYTHONPATH"] = os.pathsep.join(path[1:])
        if f'"added": {count},' not in said:
            raise Missing(f"the documents were not indexed: {said[-2000:]}")
        times = sorted(map(float, ends.read_text().split()))
    half = len(times) // 2
    return (len(times) - 1 - half) / max(times[-1] - times[half], 1e-6), used["daemon"]


def _configured(folder: Path, count: int, wait: float, processes: int, ends: Path) -> None:
    (folder / "docs").mkdir()
    for number in range(count):
        text = " ".join(f"Sentence {each} of document {number} is as long as others." for each in range(20))
        (folder / "docs" / f"{number}.md").write_text(f"# Document {number}\n\n{text}\n")
    (folder / "config.yaml").write_text(
        "chroma: {path: ./chroma, embedded: true}\nhttp: false\nembedding: {kind: hashing, dimensions: 64}\n"
        f"workers: {{kind: ray, address: local, count: {processes}, cpus: 0.1, embedders: 0}}\n"
        f"chunking: {{strategy: waiting, wait: {wait}, ends: {ends}}}\n"
        "sources: [{name: docs, kind: folder, path: docs, collection: docs}]\n"
    )


def _plugin(folder: Path) -> Path:
    """Write a package with the chunker; return its folder for the module path."""
    information = folder / "waiting_chunker-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting_chunker\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[ingestor.chunkers]\nwaiting = waiting_chunker:PLUGIN\n")
    (folder / "waiting_chunker.py").write_text(CHUNKER)
    return folder


def _kind(words: str) -> str:
    return "daemon" if "ingestor sync" in words else "others"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
