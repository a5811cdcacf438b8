"""Cost and limit of a Ray cluster: ``python -m benchmarks ray [DOCUMENTS]``; 90 by default.

The same documents, with the default strategy and model, are indexed by threads and by Ray on the same cores.
CPU seconds of all processes count. The difference of two runs of different sizes is used, so that starting
does not count. The seconds of each stage follow, and from these a model predicts the rate of many nodes.
"""

import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from benchmarks._cpu_of import measured
from benchmarks._needs import Missing
from benchmarks._pipeline_model import Rates, Stages, simulated
from benchmarks._words import Words

WORKERS = {
    "threads": "2",
    "ray": "{kind: ray, address: local, count: 2, cpus: 0.5, embedders: 1}",
}
PROCESSES, SIMULATED = 4, 4000  # for each node; documents
SHOWN = (1, 2, 4, 10, 25, 50, 100)  # nodes


def main(count: int = 90) -> None:
    if find_spec("ray") is None:
        raise Missing("the extra ray is not installed: pip install 'chroma-ingestor[ray]'")
    spent = {kind: _for_each(kind, count) for kind in WORKERS}
    for kind, found in spent.items():
        parts = ", ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in sorted(found.items()))
        print(f"{kind}: {1000 * sum(found.values()):.0f} ms of CPU a document ({parts})")
    print(
        f"ray takes {sum(spent['ray'].values()) / sum(spent['threads'].values()):.2f} of the CPU of threads"
    )
    ray = spent["ray"]
    stages = Stages(ray["daemon"], ray["prepare"], ray["embed"], 0.0, ray["chroma"])
    print("foretold, with 4 CPUs a node, as many processes, and one in four of them embedding:")
    for nodes in SHOWN:
        print(_line(nodes, simulated(stages, 3 * nodes, nodes, SIMULATED)))


def _line(nodes: int, found: Rates) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in found.busy.items() if share)
    return f"{nodes:4} nodes: {found.per_second:7.1f} documents a second; busy: {shares}"


def _for_each(kind: str, count: int) -> Counter[str]:
    """Return the CPU seconds for one more document, by process."""
    few, many = (_indexed(kind, number) for number in (count // 3, count))
    more = count - count // 3
    return Counter({name: max(0.0, many[name] - few[name]) / more for name in many})  # type: ignore[misc]


def _indexed(kind: str, count: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as name:
        folder, words = Path(name), Words()
        (folder / "docs").mkdir()
        for number in range(count):
            text = ". ".join(words.drawn(12).capitalize() for _ in range(24))
            (folder / "docs" / f"{number}.md").write_text(f"# Document {number}\n\n{text}.\n")
        (folder / "config.yaml").write_text(
            f"chroma: {{port: {8400 + count % 100}}}\nhttp: false\nworkers: {WORKERS[kind]}\n"
            "sources: [{name: docs, kind: folder, path: docs, collection: docs}]\n"
        )
        program = [str(Path(sys.executable).with_name("ingestor"))]
        used, said = measured([*program, "sync", "--json", "--config", str(folder / "config.yaml")], _kind)
    if f'"added": {count},' not in said:
        raise Missing(f"the documents were not indexed: {said[-2000:]}")
    return used


def _kind(words: str) -> str:
    if "ray::Preparing" in words or "ray::IDLE" in words:
        return "prepare"
    if "ray::Embedding" in words:
        return "embed"
    if "chroma" in words:
        return "chroma"
    if "ingestor sync" in words or "ingestor.sandbox" in words:
        return "daemon"
    return "ray itself"
