"""Embeds with any sentence-transformers model; all-MiniLM-L6-v2 comes with this program.

Vectors are unit vectors, exact in float16 (rounding.py), and functions of their text alone (batches.py). The
identity names all that decides them but the make of the processor and the version of torch, whose
differences are in the last bits and not worth embedding a collection again for.

Torch and the model (seconds and 500 MB) are loaded by the first text that is embedded; options, identity,
and for most models dimensions, window and counts, need only the model's configuration.
"""

import os
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Literal

from ingestor.embedders import weights
from ingestor.embedders.batches import STEP
from ingestor.embedders.hardware import resolve_device, resolve_precision
from ingestor.model import ReaderModel, Vectors
from ingestor.registry import Options, Plugin, pinned, tuning

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ingestor.embedders.torch_model import TorchModel


class SentenceTransformersOptions(Options):
    """``prompt`` precedes every document, ``query_prompt`` every question, as the model wants it."""

    model: str = pinned(
        "all-MiniLM-L6-v2",
        description="the one that comes with the program, a folder, or a name on the Hugging Face hub",
    )
    precision: Literal["auto", "float32", "bfloat16"] = pinned(
        "auto", description="of the computation; `auto` takes bfloat16 on CPUs that are fast at it"
    )
    device: str = pinned("auto", description="`cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes the best")
    prompt: str = pinned("", description="put before every document's text, as the model wants it")
    query_prompt: str = pinned("", description="put before every question")
    batch_tokens: int = tuning(2048, ge=1, description="how much is embedded at a time")
    threads: int = tuning(0, ge=0, description="CPU threads; 0 is as many as torch chooses")


class SentenceTransformersEmbedder:
    """See ports.Embedder. Threads may share it. NeedsHuman says that the model can't be had."""

    def __init__(self, options: SentenceTransformersOptions) -> None:
        self._options = options
        self._device = resolve_device(options.device)
        self._precision = resolve_precision(options.precision, self._device)
        self._lock = Lock()
        self._loaded: TorchModel | None = None

    @cached_property
    def identity(self) -> dict[str, object]:
        """All that decides the vectors, as JSON values; found without loading torch."""
        identity: dict[str, object] = {
            "weights": self._weights.pin,
            "precision": self._precision,
            "device": self._device.partition(":")[0],
            "prompt": self._options.prompt,
            "padding": STEP,
            "rounding": "float16",
        }
        if identity["device"] != "cpu":
            identity["batch_tokens"] = self._options.batch_tokens  # see torch_model.py
        return identity

    @cached_property
    def dimensions(self) -> int:
        return weights.dimensions(self._weights.folder) or self._model.dimensions

    @cached_property
    def window(self) -> int:
        return weights.window(self._weights.folder) or self._model.window

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._model.vectors(texts, self._options.prompt, self._options.batch_tokens)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._model.vectors(texts, self._options.query_prompt, self._options.batch_tokens)

    def reader_model(self) -> ReaderModel:
        """Readers embed their questions on the CPU, under the same prompt."""
        options, prompt = self._options, self._options.query_prompt
        prompted = {"prompts": {"query": prompt}, "default_prompt_name": "query"} if prompt else {}
        return ReaderModel(
            "sentence_transformer",
            {"model_name": options.model, "device": "cpu", "normalize_embeddings": True, "kwargs": prompted},
        )

    def count(self, texts: Sequence[str]) -> list[int]:
        """The prompt's tokens included, since it shares the window."""
        prompted = [self._options.prompt + text for text in texts]
        return [len(encoding) for encoding in self._counter.encode_batch_fast(prompted)]

    @cached_property
    def _weights(self) -> weights.Weights:
        return weights.locate(self._options.model)

    @cached_property
    def _counter(self) -> "Tokenizer":
        from ingestor.embedders.tokenizing import from_folder

        return from_folder(self._weights.folder) or self._model.counter()

    @property
    def _model(self) -> "TorchModel":
        # Heard only before torch is loaded. Threads that spin while they wait are no faster on an idle one,
        # and starve one another on a busy one: 3 s became 8 to 13 there.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from ingestor.embedders.torch_model import TorchModel

        with self._lock:
            if self._loaded is None:
                options = self._options
                self._loaded = TorchModel(self._weights, self._device, self._precision, options.threads)
            return self._loaded


def build(options: SentenceTransformersOptions) -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(options)


PLUGIN = Plugin(kind="sentence-transformers", version=1, options=SentenceTransformersOptions, build=build)
