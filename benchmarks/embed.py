"""Embedding rates: this program's against the bare model's, and against the usual ways, on the same texts.

``python -m benchmarks embed [ROUNDS]`` takes about a minute. The texts are the chunks that ``recursive`` cuts
from the documents. The ways take turns, and the best round of each counts. Seconds are the processor's, with
one thread for the model, so that the ratios hold on a busy machine too. The limit is forward passes alone, of
batches tokenized and padded beforehand, in the same precision and shapes.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import chromadb
import torch
import yaml
from chromadb.utils.embedding_functions.onnx_mini_lm_l6_v2 import ONNXMiniLM_L6_V2
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

from ingestor.app.daemon import Loop
from ingestor.app.signals import Wishes
from ingestor.app.wiring import opened
from ingestor.cli.main import read_config
from ingestor.embedders.batches import batches
from ingestor.embedders.sentence_transformers import (
    SentenceTransformersEmbedder,
    SentenceTransformersOptions,
)
from ingestor.embedders.weights import locate

ROOT = Path(__file__).parents[1]
CORPORA = (ROOT.parent / "shared" / "data" / "chunking_eval", ROOT / "documents")
OPTIONS = SentenceTransformersOptions(threads=1)
LIMIT = "forward passes alone: the limit"
PEERS = "sentence-transformers, its defaults"

Way = Callable[[], float]  # embeds all texts, and says in how many seconds


def main(rounds: int = 1) -> None:
    """Prints a table."""
    transformers_logging.disable_progress_bar()
    corpus = next(folder for folder in CORPORA if folder.is_dir())
    embedder = SentenceTransformersEmbedder(OPTIONS)
    with tempfile.TemporaryDirectory(prefix="ingestor-embed-") as folder:
        states = (Path(folder) / str(number) for number in count())
        _, texts = pipeline(corpus, next(states))
        embedder.embed(texts[:1])  # loads the model
        ways: dict[str, Way] = {
            LIMIT: forward_passes(embedder, texts),
            "the embedder": lambda: timed(lambda: embedder.embed(texts)),
            "the whole pipeline, scan to Chroma": lambda: pipeline(corpus, next(states))[0],
            **usual_ways(texts),
        }
        turns = [{name: way() for name, way in ways.items()} for _ in range(rounds)]
    best = {name: min(turn[name] for turn in turns) for name in ways}
    report(best, len(texts), sum(embedder.count(texts)), str(embedder.identity["precision"]))


def pipeline(corpus: Path, state: Path) -> tuple[float, list[str]]:
    """Seconds of a first pass over the corpus, less the loading of the model; and the chunks it made."""
    state.mkdir()
    file = state / "config.yaml"
    source = {
        "name": "docs",
        "kind": "folder",
        "path": str(corpus),
        "include": ["**/*.md"],
        "collection": "docs",
    }
    config = {
        "state": "./state",
        "chroma": {"path": "./chroma", "embedded": True},
        "embedding": {"threads": OPTIONS.threads},
        "sources": [source],
    }
    file.write_text(yaml.safe_dump(config))
    with opened(read_config(file), serve=False) as running:
        running.parts.embedder.embed(["loads the model"])
        seconds = timed(Loop(running, Wishes(), lambda live: None).sync)
    client = chromadb.PersistentClient(str(state / "chroma"))
    return seconds, client.get_collection("docs").get(include=["documents"])["documents"] or []


def forward_passes(embedder: SentenceTransformersEmbedder, texts: Sequence[str]) -> Way:
    model = bare_model(str(embedder.identity["precision"]))
    lengths = [min(length, embedder.window) for length in embedder.count(texts)]
    prepared = [
        model.tokenizer(
            [texts[position] for position in batch.members],
            padding="max_length",
            truncation=True,
            max_length=batch.length,
            return_tensors="pt",
        )
        for batch in batches(lengths, embedder.window, OPTIONS.batch_tokens)
    ]

    def passes() -> None:
        with torch.inference_mode():
            for features in prepared:
                model(dict(features))

    return lambda: timed(passes)


def usual_ways(texts: list[str]) -> dict[str, Way]:
    """As LangChain, LlamaIndex and chonkie do; and Chroma by itself, where its weights are at hand."""
    default, half = bare_model("float32"), bare_model("bfloat16")
    ways: dict[str, Way] = {
        PEERS: lambda: timed(lambda: default.encode(texts)),
        "sentence-transformers, bfloat16": lambda: timed(lambda: half.encode(texts)),
    }
    weights = ONNXMiniLM_L6_V2.DOWNLOAD_PATH / ONNXMiniLM_L6_V2.EXTRACTED_FOLDER_NAME / "model.onnx"
    if weights.is_file():
        ways["Chroma's default embedding function"] = lambda: timed(lambda: ONNXMiniLM_L6_V2()(texts))
    else:
        print("Chroma's default embedding function is left out: its weights are not on this machine")
    return ways


def bare_model(precision: str) -> SentenceTransformer:
    return SentenceTransformer(
        str(locate(OPTIONS.model).folder),
        device="cpu",
        local_files_only=True,
        model_kwargs={"dtype": getattr(torch, precision)},
    )


def timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def report(seconds: dict[str, float], texts: int, tokens: int, precision: str) -> None:
    print(f"{texts} texts, {tokens / texts:.0f} tokens each; {precision}; per processor second")
    print(f"{'':38} {'texts':>8} {'tokens':>9} {'of limit':>9} {'of peers':>9}")
    for name, taken in seconds.items():
        rates = f"{texts / taken:8.0f} {tokens / taken:9.0f}"
        print(f"{name:38} {rates} {seconds[LIMIT] / taken:8.0%} {seconds[PEERS] / taken:8.1f}x")
