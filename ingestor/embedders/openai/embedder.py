"""Embeds through any server with OpenAI's API: Ollama, llama.cpp, vLLM, TEI, hosted ones.

Such a server's vectors differ in the last bits with its version and load, so the first vector of a text is
kept in the cache. All vectors are scaled to length 1 and rounded to float16. Another `model`, `dimensions`,
`prompt`, `parameters` or `revision` embeds everything again; another `base_url` does not. Texts are sent to
the server; without `dimensions`, so is one word, to learn how long its vectors are.

A refused request is halved until the text is found that the server does not take. Before the first halving
the server must take a harmless text: else it refuses everything, and that says nothing about these texts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ingestor.embedders.openai.sending import HARMLESS, Call, OpenAIOptions, Sender, TextsRefused
from ingestor.llm.at_once import in_parallel
from ingestor.model import Answered, Vector, Vectors
from ingestor.ports import BadDocument, NeedsHuman, Stop, Transient
from ingestor.registry import Plugin

Positions = Sequence[int]
Outcome = dict[int, Vector | Exception]
Send = Callable[[Positions], Sequence[Vector | None]]  # None: numbers that are no vector


_NO_VECTOR = "gave numbers for it that are no vector"


def batches(tokens: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[range]:
    """Positions of neighbours, each once and in order. A text beyond ``most_tokens`` goes alone."""
    start = total = 0
    for position, number in enumerate(tokens):
        if position > start and (position - start == most_texts or total + number > most_tokens):
            yield range(start, position)
            start, total = position, 0
        total += number
    if start < len(tokens):
        yield range(start, len(tokens))


def resolve(batch: Positions, send: Send, check: Callable[[str], None]) -> Outcome:
    """Return a vector or an error for each position of a batch.

    ``send``: raises TextsRefused if one of the texts may be at fault, else Transient or NeedsHuman.
    ``check``: takes the reason of a refusal; raises Transient or NeedsHuman if the server refuses a harmless
    text, too.
    """
    try:
        outcome, parts, reason = _send_once(batch, send)
        if parts:
            check(reason)
    except (Transient, NeedsHuman) as error:
        return dict.fromkeys(batch, error)
    if parts and len(batch) == 1:
        return {batch[0]: BadDocument(f"the embedding server {reason}")}
    for part in parts:
        outcome |= resolve(part, send, check)
    return outcome


def _send_once(batch: Positions, send: Send) -> tuple[Outcome, list[Positions], str]:
    """Send a batch once; return vectors by position, the parts to send again, and the reason."""
    try:
        rows = send(batch)
    except TextsRefused as refused:
        half = (len(batch) + 1) // 2
        return {}, [part for part in (batch[:half], batch[half:]) if part], str(refused)
    pairs = list(zip(batch, rows, strict=True))
    outcome: Outcome = {position: row for position, row in pairs if row is not None}
    return outcome, [[position] for position, row in pairs if row is None], _NO_VECTOR


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
        values = self._options.model_dump(
            include={"model", "dimensions", "prompt", "parameters", "revision"}, mode="json"
        )
        return {**values, "rounding": "float16"}

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
        return self._stack(self.embed_each(texts, Stop()))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        options = self._options
        more = {**options.parameters, **options.query_parameters}
        return self._stack(self._each(texts, options.query_prompt, more, Stop()))

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        return self._each(texts, self._options.prompt, self._options.parameters, stop)

    def _each(self, texts: Sequence[str], prompt: str, more: Mapping[str, Any], stop: Stop) -> Answered:
        options = self._options
        prompted = [prompt + text for text in texts]
        parts = list(batches(self._sender.count(prompted), options.batch_texts, options.batch_tokens))
        call = Call(self._sender, prompt, more, stop)
        send = partial(call.vectors, prompted)
        done = in_parallel(lambda part: resolve(part, send, call.check), parts, options.concurrency, stop)
        vectors: Outcome = {position: row for outcome in done for position, row in outcome.items()}
        return Answered([vectors[position] for position in range(len(texts))], call.tokens)

    def _stack(self, answered: Answered) -> Vectors:
        for vector in answered.vectors:
            if isinstance(vector, Exception):
                raise vector
        return np.array(answered.vectors, np.float32).reshape(-1, self.dimensions)


def build(options: OpenAIOptions) -> OpenAIEmbedder:
    return OpenAIEmbedder(options)


PLUGIN = Plugin(kind="openai", version=1, options=OpenAIOptions, build=build)
