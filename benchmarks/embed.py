"""Embedding rates by engine, precision, threads and length of text; and the agreement of vectors.

``python -m benchmarks embed [ROUNDS]`` takes some minutes. The texts are parts of real documents of about 50
and about 200 tokens. All engines run in one process and take turns on the same texts; the best round of each
counts. Rates are chunks for each second of elapsed time and of processor time. On a busy machine compare
ratios of processor time only. Cosines are to sentence-transformers in float32. The last line compares the
whole pipeline, from the listing to Chroma, with its embedder alone.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import chromadb
import numpy as np
import yaml

from benchmarks._needs import prose
from ingestor.app.daemon import Loop, Signals
from ingestor.app.wiring import open_state
from ingestor.config.file import load
from ingestor.embedders.engines import multiplies_bfloat16, multiplies_int8
from ingestor.embedders.model_files import locate
from ingestor.embedders.sentence_transformers import (
    SentenceTransformersEmbedder,
    SentenceTransformersOptions,
)
from ingestor.model import Vectors

LENGTHS = {"short": (220, 48), "long": (900, 16)}  # characters of a text, number of texts
ENGINES: tuple[Literal["torch", "openvino"], ...] = ("torch", "openvino")
THREADS = (1, 2)
PEER = ("sentence-transformers", "float32")
BASE = ("torch", "bfloat16")  # baseline of the comparison; float32 on processors without bfloat16

Way = Callable[[Sequence[str]], Vectors]
Key = tuple[str, str, int, str]  # engine, precision, threads, length
Cost = tuple[float, float]  # seconds on the clock and of the processor


def main(rounds: int = 3) -> None:
    """Prints a table."""
    corpus = prose()
    texts = {name: passages(corpus, *size) for name, size in LENGTHS.items()}
    ways = all_ways()
    for (_, _, threads), way in ways.items():
        allow(threads)
        for each in texts.values():
            way(each)  # loads the model, and compiles it for these shapes
    turns = [measure(ways, texts) for _ in range(rounds)]
    best = {key: tuple(min(turn[key][part] for turn in turns) for part in (0, 1)) for key in turns[0]}
    report(best, texts)
    report_agreement(ways, [*texts["short"], *texts["long"]])
    report_pipeline(corpus)


def all_ways() -> dict[tuple[str, str, int], Way]:
    """Return the ways to embed, by engine, precision and threads."""
    ways: dict[tuple[str, str, int], Way] = {}
    pairs = [(engine, precision) for engine in ENGINES for precision in precisions(engine)]
    for engine, precision in pairs:
        for threads in THREADS:
            options = SentenceTransformersOptions(engine=engine, precision=precision, threads=threads)
            ways[engine, precision, threads] = SentenceTransformersEmbedder(options).embed
    ways["torch", "float32", 1](["loads torch as the program does, with threads that do not spin"])
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(locate("all-MiniLM-L6-v2").folder), device="cpu", local_files_only=True)
    return {**{(*PEER, threads): library.encode for threads in THREADS}, **ways}


def precisions(engine: str) -> Iterator[Literal["float32", "bfloat16", "int8"]]:
    """Yield the precisions that this processor supports."""
    yield "float32"
    if multiplies_bfloat16():
        yield "bfloat16"
    if multiplies_int8() and engine == "openvino":
        yield "int8"


def allow(threads: int) -> None:
    """Set the number of torch's threads; OpenVINO's are an option of each model."""
    import torch

    torch.set_num_threads(threads)


def measure(ways: dict[tuple[str, str, int], Way], texts: dict[str, list[str]]) -> dict[Key, Cost]:
    found = {}
    for (engine, precision, threads), way in ways.items():
        allow(threads)
        for length, each in texts.items():
            begun, worked = time.perf_counter(), time.process_time()
            way(each)
            cost = time.perf_counter() - begun, time.process_time() - worked
            found[engine, precision, threads, length] = cost
    return found


def passages(corpus: Path, size: int, number: int) -> list[str]:
    """Return parts of documents, cut at blanks, from all over the corpus."""
    text = " ".join(path.read_text("utf-8") for path in sorted(corpus.rglob("*.md")))
    step = len(text) // number
    cut = [text[start : start + size] for start in range(0, step * number, step)]
    return [part[part.find(" ") + 1 : part.rfind(" ")] for part in cut]


def report(best: dict[Key, tuple[float, ...]], texts: dict[str, list[str]]) -> None:
    base = BASE if (*BASE, 1, "short") in best else ("torch", "float32")
    columns = ("threads", "texts", "clock", "ratio", "work", "ratio")
    print(" " * 32, *(f"{column:>8}" for column in columns), f"; ratio to {' '.join(base)}")
    for key, costs in best.items():
        engine, precision, threads, length = key
        than = best[(*base, threads, length)]
        rates = [len(texts[length]) / cost for cost in costs]
        ratios = [other / cost for other, cost in zip(than, costs, strict=True)]
        print(
            f"{engine:22} {precision:9} {threads:8} {length:>8} {rates[0]:8.1f} {ratios[0]:8.2f}"
            f" {rates[1]:8.1f} {ratios[1]:8.2f}"
        )


def report_agreement(ways: dict[tuple[str, str, int], Way], texts: Sequence[str]) -> None:
    reference = unit(ways[(*PEER, 1)](texts))
    for (engine, precision, threads), way in ways.items():
        if threads == 1:
            cosines = (unit(way(texts)) * reference).sum(axis=1)
            print(f"{engine:22} {precision:9} cosine: mean {cosines.mean():.6f}, least {cosines.min():.6f}")


def unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def report_pipeline(corpus: Path) -> None:
    """Compare a first pass, without loading the model, with its embedder alone on the same chunks."""
    with tempfile.TemporaryDirectory(prefix="ingestor-embed-") as folder:
        state = Path(folder)
        where = {"path": str(corpus), "include": ["**/*.md"], "collection": "docs"}
        source = {"name": "docs", "kind": "folder", **where}
        config = {
            "state": "./state",
            "chroma": {"path": "./chroma", "embedded": True},
            "embedding": {"threads": 1},
            "chunking": {"strategy": "recursive"},
            "sources": [source],
        }
        (state / "config.yaml").write_text(yaml.safe_dump(config))
        with open_state(load(state / "config.yaml", {}), serve=False) as running:
            embedder = running.parts.embedder
            embedder.embed(["loads the model"])
            begun = time.process_time()
            Loop(running, Signals()).sync()
            whole = time.process_time() - begun
        client = chromadb.PersistentClient(str(state / "chroma"))
        chunks = client.get_collection("docs").get(include=["documents"])["documents"] or []
        begun = time.process_time()
        embedder.embed(chunks)
        alone = time.process_time() - begun
    rates = f"{len(chunks) / whole:.0f} against {len(chunks) / alone:.0f} chunks a second of work"
    print(
        f"the whole pipeline against its embedder alone: {alone / whole:.0%} ({len(chunks)} chunks; {rates})"
    )
