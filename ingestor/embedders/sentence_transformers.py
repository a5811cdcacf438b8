"""Embedder ``sentence-transformers``: any model of the library with this name; all-MiniLM-L6-v2 is included.

Vectors are unit vectors, exact in float16, and depend on their text alone (exact.py). OpenVINO runs the
models of the BERT family for which ``engines.outline`` returns a structure; sentence-transformers and torch
run all others. The identity omits the make of the processor and the versions of OpenVINO and torch. They
change only the last bits, which do not justify embedding everything again.

The model is loaded when the first text is embedded. The identity needs only the model's configuration; so do
dimensions, window and counts for most models.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol

from ingestor.embedders import engines, model_files
from ingestor.embedders.exact import STEP
from ingestor.model import ReaderModel
from ingestor.registry import Options, Plugin, pinned, tuning

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ingestor.model import EmbeddedPart, Vectors


class SentenceTransformersOptions(Options):
    """Options of ``sentence-transformers``.

    ``prompt`` is put in front of every document, ``query_prompt`` in front of every question.
    """

    model: str = pinned(
        "all-MiniLM-L6-v2",
        description="the bundled model, a folder, or a name on the Hugging Face hub",
    )
    engine: Literal["auto", "openvino", "torch"] = pinned(
        "auto",
        description="`openvino`: BERT family on CPUs; `torch`: every model; `auto`: the fastest "
        "available, then the one that made the collection",
    )
    precision: Literal["auto", "float32", "bfloat16", "int8"] = pinned(
        "auto",
        description="precision of the computation; `auto`: bfloat16 with AMX or AMD's AVX512-BF16, else "
        "int8 with AVX512-VNNI under OpenVINO, else float32",
    )
    device: str = pinned("auto", description="`cpu`, `cuda`, `cuda:1` or `mps`; `auto`: the best available")
    prompt: str | None = pinned(
        None, description="text before every document; default: from the model's files"
    )
    query_prompt: str | None = pinned(
        None, description="text before every question; default: from the model's files"
    )
    batch_tokens: int = tuning(2048, ge=1, description="tokens embedded at a time")
    threads: int = tuning(0, ge=0, description="CPU threads; 0: the engine chooses")


class LoadedModel(Protocol):
    """A model in memory. Threads may share it."""

    dimensions: int
    window: int  # tokens

    def parts(self, texts: Sequence[str], prompt: str, budget: int) -> Generator[EmbeddedPart]:
        """Yield unit vectors of all texts, part by part. Between two parts, other calls may embed.

        ``prompt``: text in front of each text. ``budget``: number of tokens embedded at a time.
        """
        ...

    def counter(self) -> Tokenizer:
        """Return the model's tokenizer, without truncation, to count tokens."""
        ...


class SentenceTransformersEmbedder:
    """Embedder by a model on this machine (see ports.Embedder). Threads may share it.

    Properties and methods raise NeedsHuman if there is no such model, or if no engine can run it.
    """

    def __init__(self, options: SentenceTransformersOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._loaded: LoadedModel | None = None

    def alternatives(self) -> Iterator[tuple[SentenceTransformersEmbedder, bool]]:
        """Yield an embedder for each precision and device that the options allow, and whether it runs here.

        See ports.Adaptive.
        """
        for way in self._ways:
            other = SentenceTransformersEmbedder(self._options)
            other._weights, other._ways, other._way = self._weights, self._ways, way
            yield other, not way.missing

    @cached_property
    def identity(self) -> dict[str, object]:
        """Return everything on which the vectors depend, as JSON values. The model is not loaded for that."""
        way = self._way
        identity: dict[str, object] = {
            "weights": self._weights.pin,
            "precision": way.precision,
            "device": way.device.partition(":")[0],
            "prompt": self._prompts.document,
            "padding": STEP,
            "rounding": "float16",
        }
        if identity["device"] != "cpu":
            identity["batch_tokens"] = self._options.batch_tokens  # see torch_model.py
        return identity if way.engine == "torch" else {**identity, "engine": way.engine}

    @cached_property
    def dimensions(self) -> int:
        return model_files.dimensions(self._weights.folder) or self._model.dimensions

    @cached_property
    def window(self) -> int:
        return model_files.window(self._weights.folder) or self._model.window

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embed_all(texts, self._prompts.document)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed_all(texts, self._prompts.query)

    def embed_gradually(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        return self._model.parts(texts, self._prompts.document, self._options.batch_tokens)

    def _embed_all(self, texts: Sequence[str], prompt: str) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self._model.dimensions), np.float32)
        for part in self._model.parts(texts, prompt, self._options.batch_tokens):
            vectors[list(part.positions)] = part.vectors
        return vectors

    def reader_model(self) -> ReaderModel:
        """Return the settings with which readers embed questions: on the CPU, with the same prompt."""
        prompt = self._prompts.query
        prompted = {"prompts": {"query": prompt}, "default_prompt_name": "query"} if prompt else {}
        return ReaderModel(
            "sentence_transformer",
            {
                "model_name": self._options.model,
                "device": "cpu",
                "normalize_embeddings": True,
                "kwargs": prompted,
            },
        )

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text with the prompt in front, since both share the model's window."""
        prompted = [self._prompts.document + text for text in texts]
        return [len(encoding) for encoding in self._counter.encode_batch_fast(prompted)]

    def count_unknown(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the numbers of unknown and of all tokens in the texts (see ports.Vocabulary)."""
        return model_files.count_unknown(self._counter, texts)

    @cached_property
    def _weights(self) -> model_files.Weights:
        return model_files.locate(self._options.model)

    @cached_property
    def _ways(self) -> list[engines.Way]:
        options = self._options
        return list(engines.ways(options.engine, options.precision, options.device, self._weights.folder))

    @cached_property
    def _way(self) -> engines.Way:
        return engines.choose_way(self._ways, self._options.model)

    @cached_property
    def _prompts(self) -> model_files.Prompts:
        own = model_files.prompts(self._weights.folder, self._options.model)
        document, query = self._options.prompt, self._options.query_prompt
        return model_files.Prompts(
            own.document if document is None else document, own.query if query is None else query
        )

    @cached_property
    def _counter(self) -> Tokenizer:
        folder = self._weights.folder
        stage = model_files.transformer(folder) or folder
        return model_files.load_tokenizer(stage) or self._model.counter()

    @property
    def _model(self) -> LoadedModel:
        with self._lock:
            if self._loaded is None:
                load = _openvino if self._way.engine == "openvino" else _torch
                self._loaded = load(self._weights, self._way, self._options.threads)
            return self._loaded


def _openvino(files: model_files.Weights, way: engines.Way, threads: int) -> LoadedModel:
    from ingestor.embedders.openvino import OpenVinoModel

    return OpenVinoModel(files, engines.outline(files.folder), way.precision, threads)


def _torch(files: model_files.Weights, way: engines.Way, threads: int) -> LoadedModel:
    # Only effective before torch is loaded. Spinning threads are no faster on an idle machine, and starve one
    # another on a busy machine, where 3 s became 8 to 13 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from ingestor.embedders.torch_model import TorchModel

    return TorchModel(files, way.device, way.precision, threads)


PLUGIN = Plugin(
    kind="sentence-transformers",
    version=1,
    options=SentenceTransformersOptions,
    build=SentenceTransformersEmbedder,
)
