"""Embeds through any server with OpenAI's API: Ollama, llama.cpp, vLLM, TEI, hosted ones.

Such a server's vectors differ in the last bits with its version and load, so the first vector of a text is
kept in the cache. All vectors are scaled to length 1 and rounded to float16. Another `model`, `dimensions`,
`prompt`, `parameters` or `revision` embeds everything again; another `base_url` does not. Texts are sent to
the server; without `dimensions`, so is one word, to learn how long its vectors are.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ingestor.embedders.openai.batching import Outcome, batches, resolved
from ingestor.embedders.openai.lanes import in_parallel
from ingestor.embedders.openai.options import OpenAIOptions
from ingestor.embedders.openai.sending import HARMLESS, Call, Sender
from ingestor.model import Answered, Vectors
from ingestor.ports import Stop
from ingestor.registry import Plugin

_UNKNOWN = 2**31 - 1  # tokens: no text is longer
_WINDOWS = dict.fromkeys(
    ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"), 8191
)  # tokens


class OpenAIEmbedder:
    """See ports.Embedder and ports.Remote. Threads may share it."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self._sender = Sender(options)
        self.window = options.window or _WINDOWS.get(options.model, _UNKNOWN)
        self.at_once = options.concurrency * options.batch_texts * 2

    @property
    def identity(self) -> dict[str, object]:
        """Return the options that the vectors depend on; the server's address is no part of them."""
        told = self._options.model_dump(
            include={"model", "dimensions", "prompt", "parameters", "revision"}, mode="json"
        )
        return {**told, "rounding": "float16"}

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors: from the options, or else from the first answer.

        Raises Transient and NeedsHuman.
        """
        known = self._options.dimensions or self._sender.width
        return known or self.embed([HARMLESS]).shape[1]

    def count(self, texts: Sequence[str]) -> list[int]:
        """The prompt's tokens included."""
        return self._sender.count([self._options.prompt + text for text in texts])

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._stacked(self.embed_each(texts, Stop()))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        options = self._options
        more = {**options.parameters, **options.query_parameters}
        return self._stacked(self._each(texts, options.query_prompt, more, Stop()))

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        return self._each(texts, self._options.prompt, self._options.parameters, stop)

    def _each(self, texts: Sequence[str], prompt: str, more: Mapping[str, Any], stop: Stop) -> Answered:
        options = self._options
        prompted = [prompt + text for text in texts]
        parts = list(batches(self._sender.count(prompted), options.batch_texts, options.batch_tokens))
        call = Call(self._sender, prompt, more, stop)
        send = partial(call.vectors, prompted)
        done = in_parallel(lambda part: resolved(part, send, call.check), parts, options.concurrency, stop)
        found: Outcome = {position: row for outcome in done for position, row in outcome.items()}
        return Answered([found[position] for position in range(len(texts))], call.tokens)

    def _stacked(self, answered: Answered) -> Vectors:
        for vector in answered.vectors:
            if isinstance(vector, Exception):
                raise vector
        return np.array(answered.vectors, np.float32).reshape(-1, self.dimensions)


def build(options: OpenAIOptions) -> OpenAIEmbedder:
    return OpenAIEmbedder(options)


PLUGIN = Plugin(kind="openai", version=1, options=OpenAIOptions, build=build)
