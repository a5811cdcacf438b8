"""Embedder ``openai``: any server with OpenAI's API, such as Ollama, llama.cpp, vLLM, TEI or hosted servers.

The last bits of a server's vectors depend on its version and load. So the first vector of a text is kept in
the cache and used again. All vectors are scaled to length 1 and rounded to float16. Changing `model`,
`dimensions`, `prompt`, `parameters` or `revision` embeds everything again; changing `base_url` does not.
Texts are sent to the server. Without `dimensions`, one more word is sent to learn the length of vectors.

The texts of a refused request are halved until the offending text is isolated. Before the first halving, the
server must accept a harmless text: otherwise it refuses everything, and the texts are not at fault.

Requests respect the config's limits in every span of a minute, and the pauses that the server asks for. They
are repeated while the server is busy.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ingestor.core.errors import Stopped
from ingestor.embedders.exact import unit
from ingestor.embedders.model_files import count_unknown, load_tokenizer
from ingestor.llm.at_once import in_parallel
from ingestor.llm.options import ModelServer
from ingestor.llm.server import (
    LONGEST_WAIT,
    TOO_LONG,
    ModelRequests,
    RequestNotTaken,
    TryAgain,
    patiently,
    token_count,
)
from ingestor.model import Answered, Vector, Vectors
from ingestor.ports import BadDocument, NeedsHuman, Stop, Transient
from ingestor.registry import Plugin, pinned, tuning
from ingestor.text.tokens import Tokens
from ingestor.units import quantity

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class OpenAIOptions(ModelServer):
    model: str = pinned(..., min_length=1, description="model, as the server names it")
    dimensions: int | None = pinned(
        None, ge=1, le=65_536, description="dimensions to request, for models that can shorten vectors"
    )
    prompt: str = pinned("", description="text before every document, as the model needs")
    query_prompt: str = pinned("", description="text before every question, as the model needs")
    parameters: dict[str, Any] = pinned(
        {}, description="further fields of every request, such as `input_type` or `truncate`"
    )
    query_parameters: dict[str, Any] = pinned(
        {}, description="other values of such fields for questions of `ingestor query`"
    )
    revision: str = pinned(
        "",
        description="change this value to re-embed everything, such as after a change of the server's model",
    )
    price: float = tuning(0.0, ge=0, description="price of a million tokens, for `plan`, `sync` and `status`")
    window: int | None = tuning(
        None,
        ge=1,
        description="tokens that the model reads; without it no chunk counts as too long",
    )
    tokenizer: Path | None = tuning(
        None,
        description="the model's `tokenizer.json` or its folder; default: tokens are counted as OpenAI's",
    )
    batch_texts: int = tuning(32, ge=1, le=2048, description="most texts in a request")
    batch_tokens: int = tuning(8192, ge=1, description="most tokens in a request; a longer text goes alone")
    requests_per_minute: int | None = tuning(None, ge=1, description="most requests a minute")
    tokens_per_minute: int | None = tuning(None, ge=1, description="most tokens a minute")


Count = Callable[[Sequence[str]], list[int]]


def tokenizer_of(tokenizer: Path | None) -> "Tokenizer | None":
    """Load a ``tokenizer.json``, given as the file or its folder; None if no path is given.

    Raises NeedsHuman if the file is missing or cannot be read.
    """
    if tokenizer is None:
        return None
    folder = tokenizer.parent if tokenizer.name == "tokenizer.json" else tokenizer
    try:
        loaded = load_tokenizer(folder)
    except Exception as error:
        raise NeedsHuman(
            f"embedding: the tokenizer in {folder} can't be read ({error}): correct `embedding.tokenizer`"
        ) from error
    if loaded is None:
        raise NeedsHuman(f"embedding: there is no tokenizer.json in {folder}: correct `embedding.tokenizer`")
    return loaded


MINUTE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The most requests and the most tokens that may be sent in any span of a minute."""

    requests: float = inf
    tokens: float = inf


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent, or is scheduled for a time in the future."""

    at: float  # monotonic seconds
    tokens: int


def earliest(sent: Sequence[Sent], limits: RateLimits, now: float, tokens: int) -> float:
    """Return the earliest time, from ``now`` on, at which a request of ``tokens`` tokens may be sent.

    ``sent``: earlier requests in order, including scheduled ones, which no request overtakes. A request with
    more tokens than the limit of a minute gets a minute for itself. Times are monotonic seconds.
    """
    begin = max([now, *(one.at for one in sent[-1:])])
    times = [begin, *(one.at + MINUTE for one in sent if one.at + MINUTE > begin)]

    def fits(time: float) -> bool:
        others = recent(sent, time)
        total = tokens + sum(one.tokens for one in others)
        return not others or (len(others) < limits.requests and total <= limits.tokens)

    return next(filter(fits, times))


def recent(sent: Sequence[Sent], now: float) -> list[Sent]:
    """Return the requests that were sent in the minute before ``now``, or are scheduled for later."""
    return [one for one in sent if one.at + MINUTE > now]


class Pace:
    """Schedule of the requests to one server, within its limits. Threads share an object.

    ``clock``: returns monotonic seconds.
    """

    def __init__(self, limits: RateLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._lock = Lock()
        self._sent: list[Sent] = []
        self._resumes = 0.0

    def take(self, tokens: int) -> float:
        """Schedule a request of ``tokens`` tokens; return the seconds to wait before sending it."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._resumes)
            self._sent = recent(self._sent, now)
            at = earliest(self._sent, self._limits, begin, tokens)
            self._sent.append(Sent(at, tokens))
            return at - now

    def pause(self, seconds: float) -> None:
        """Schedule no further request before ``seconds`` have passed."""
        with self._lock:
            self._resumes = max(self._resumes, self._clock() + seconds)


WIDEST = 65_536  # dimensions
_DIGITS = 40  # bytes of a number in JSON, with separators
_ENVELOPE = 1_000_000  # bytes of an answer besides its numbers


class Malformed(Exception):
    """Error: the server's answer to some texts is not as OpenAI's API defines it."""


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """A server's answer to one request for vectors."""

    vectors: Sequence[Vector | None]  # unit vectors; None for numbers that are no vector, such as NaN
    dimensions: int  # length of every vector
    tokens: int | None  # tokens of the request, if the server counted them


def longest(texts: int, dimensions: int | None) -> int:
    """Return the most bytes that an answer with vectors of ``texts`` texts may have."""
    return _ENVELOPE + texts * (dimensions or 8192) * _DIGITS


def read_answer(content: bytes, texts: int) -> EmbeddingAnswer:
    """Parse a server's answer to a request with ``texts`` texts. Raises Malformed."""
    body = _json(content)
    try:
        entries = _in_order(body["data"], texts)
        rows = [_numbers(entry["embedding"]) for entry in entries]
        counted = (body.get("usage") or {}).get("prompt_tokens")
        tokens = None if counted is None else token_count(counted)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise Malformed("did not answer as an OpenAI-compatible server does; check `base_url`") from None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 0 < max(widths) <= WIDEST:
        shown = ", ".join(map(str, sorted(widths)[:5]))
        raise Malformed(f"returned vectors of different or invalid lengths ({shown}) in one answer")
    return EmbeddingAnswer([_vector(row) for row in rows], widths.pop(), tokens)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return json.loads(content)  # accepts NaN, which Python servers write
    except (ValueError, RecursionError):
        raise Malformed("did not answer with JSON; check `base_url`") from None


def _in_order(data: Sequence[Mapping[str, Any]], texts: int) -> Sequence[Mapping[str, Any]]:
    """Return an answer's entries in the order of the texts, by their ``index`` if any. Raises Malformed."""
    if len(data) != texts:
        raise Malformed(f"returned {len(data)} vectors for {quantity(texts, 'text')}")
    if all("index" not in entry for entry in data):
        return data
    by_index = {entry["index"]: entry for entry in data}
    if by_index.keys() != set(range(texts)):
        raise Malformed(f"returned {texts} vectors with a wrong `index`")
    return [by_index[index] for index in range(texts)]


def _numbers(embedding: Sequence[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the numbers of a vector, with NaN for null. Raises TypeError or ValueError."""
    if not isinstance(embedding, list) or any(isinstance(number, str | bool) for number in embedding[:1]):
        raise TypeError
    vector = np.array(embedding, np.float64)
    if vector.ndim != 1:
        raise TypeError
    return vector


def _vector(row: np.ndarray[Any, np.dtype[np.float64]]) -> Vector | None:
    """Return the numbers as a unit vector; None if their length is zero, infinite or NaN."""
    with np.errstate(over="ignore", under="ignore"):
        length = float(np.linalg.norm(row))
        if not (np.isfinite(length) and length > 0):
            return None
        made: Vector = unit(row[None, :])[0]
    return made if made.any() else None


HARMLESS = "word"  # a text that any model accepts
_ABOUT_TEXTS = (400, 413, 422)  # statuses that one of many texts may cause


class TextsRefused(Exception):
    """Error: the server refused a request because of its texts. The message gives the reason."""


class Sender:
    """Sends texts to one server, and checks its answers. Threads may share an object."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self._requests = ModelRequests(options, "the embedding server", options.model)
        self._pace = Pace(RateLimits(options.requests_per_minute or inf, options.tokens_per_minute or inf))
        self._learned: dict[str, int] = {}

    @property
    def dimensions(self) -> int | None:
        """Return the length of the vectors in the first answer; None before there is an answer."""
        return self._learned.get("dimensions")

    def describe(self, what: object) -> str:
        return self._requests.describe(what)

    @cached_property
    def tokenizer(self) -> "Tokenizer | None":
        return tokenizer_of(self._options.tokenizer)

    @cached_property
    def count(self) -> Count:
        """Return a function that counts tokens by the option ``tokenizer``, else as OpenAI's models do."""
        loaded = self.tokenizer
        if loaded is None:
            return Tokens().counts
        return lambda texts: [len(encoding) for encoding in loaded.encode_batch_fast(list(texts))]

    def answer(self, texts: Sequence[str], more: Mapping[str, Any], stop: Stop) -> EmbeddingAnswer:
        """Send texts, again if necessary, and return the server's answer.

        ``more``: further fields of the request. Raises TextsRefused if a text may be at fault, Transient if
        the server stays busy, NeedsHuman if the config must be corrected, and Stopped.
        """
        tokens = sum(self.count(texts))
        body: dict[str, Any] = {
            "model": self._options.model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._options.dimensions is not None:
            body["dimensions"] = self._options.dimensions
        body = {name: value for name, value in {**body, **more}.items() if value is not None}
        try:
            return patiently(
                lambda: self._once(body, len(texts), tokens, stop),
                self._options.retries,
                partial(_wait, stop),
            )
        except TryAgain as busy:
            raise Transient(self.describe(busy)) from None
        except RequestNotTaken as refused:
            if refused.status in _ABOUT_TEXTS or TOO_LONG in refused.code:
                raise TextsRefused(str(refused)) from None
            raise NeedsHuman(self.describe(refused)) from None

    def _once(self, body: Mapping[str, Any], texts: int, tokens: int, stop: Stop) -> EmbeddingAnswer:
        _wait(stop, self._pace.take(tokens))
        try:
            content = self._requests.post("/embeddings", body, longest(texts, self._options.dimensions))
            return self._check(read_answer(content, texts))
        except Malformed as error:
            raise TryAgain(str(error)) from None
        except TryAgain as busy:
            # Other threads would be refused, too, before the time that the server names.
            if busy.after is not None and busy.after <= LONGEST_WAIT:
                self._pace.pause(busy.after)
            raise

    def _check(self, answer: EmbeddingAnswer) -> EmbeddingAnswer:
        wanted = self._options.dimensions
        if wanted is not None and answer.dimensions != wanted:
            raise NeedsHuman(
                self.describe(
                    f"returned vectors of {answer.dimensions} dimensions, not of {wanted}: correct "
                    f"`dimensions`, or leave it out if model {self._options.model!r} cannot shorten its "
                    "vectors"
                )
            )
        before = self._learned.setdefault("dimensions", answer.dimensions)
        if answer.dimensions != before:
            raise Malformed(f"returned vectors of {answer.dimensions} dimensions, but of {before} before")
        return answer


class Call:
    """The requests of one call of the embedder, which share a prompt, further fields and a stop flag."""

    def __init__(self, sender: Sender, prompt: str, more: Mapping[str, Any], stop: Stop) -> None:
        self._sender, self._prompt, self._more, self._stop = sender, prompt, more, stop
        self._counted: list[int | None] = []
        self._harmless_passed = False

    @property
    def tokens(self) -> int | None:
        """Return the sum of the tokens that the server counted; None if some answer had no count."""
        counts = [number for number in self._counted if number is not None]
        return sum(counts) if len(counts) == len(self._counted) else None

    def vectors(self, texts: Sequence[str], positions: Sequence[int]) -> Sequence[Vector | None]:
        """Return the vectors of the texts at these positions. Raises the same errors as ``Sender.answer``."""
        answer = self._sender.answer([texts[position] for position in positions], self._more, self._stop)
        self._counted.append(answer.tokens)
        return answer.vectors

    def check(self, reason: str) -> None:
        """Send a harmless text, once for each call, to find out whether the server refuses every text.

        ``reason``: why a request was refused. Raises NeedsHuman or Transient if the harmless text fails as
        well.
        """
        if self._harmless_passed:
            return
        describe = self._sender.describe
        try:
            [vector] = self.vectors([self._prompt + HARMLESS], [0])
        except TextsRefused:
            raise NeedsHuman(describe(reason)) from None
        if vector is None:
            raise Transient(describe("returns no usable vectors, not even for an ordinary word"))
        self._harmless_passed = True


def _wait(stop: Stop, seconds: float) -> None:
    """Wait for some seconds. Raises Stopped if ``stop`` is set before they have passed."""
    if stop.wait(seconds) if seconds > 0 else stop.is_set():
        raise Stopped


Positions = Sequence[int]
Outcome = dict[int, Vector | Exception]
Send = Callable[[Positions], Sequence[Vector | None]]  # None: numbers that are no vector


_NO_VECTOR = "returned no usable vector for the text, but zeros, infinity or no numbers"


def batches(tokens: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[range]:
    """Yield batches of texts as ranges of their positions. ``tokens``: tokens of each text.

    A text with more than ``most_tokens`` tokens is a batch of its own.
    """
    start = total = 0
    for position, number in enumerate(tokens):
        if position > start and (position - start == most_texts or total + number > most_tokens):
            yield range(start, position)
            start, total = position, 0
        total += number
    if start < len(tokens):
        yield range(start, len(tokens))


def resolve(batch: Positions, send: Send, check: Callable[[str], None]) -> Outcome:
    """Return a vector or an error for each position of a batch. A refused batch is halved and sent again.

    ``send``: raises TextsRefused if one of the texts may be at fault, else Transient or NeedsHuman.
    ``check``: called with the reason of a refusal; raises Transient or NeedsHuman if the server refuses a
    harmless text as well.
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
    """Send a batch once. Return vectors by position, and parts to send again with the reason."""
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
    """Embedder by a server with OpenAI's API (see ports.Embedder and ports.Remote). Threads may share it."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self._sender = Sender(options)
        self.window = options.window or _WINDOWS.get(options.model, _UNKNOWN)
        self.at_once = options.concurrency * options.batch_texts * 2

    @property
    def identity(self) -> dict[str, object]:
        """Return the options on which the vectors depend. The server's address is not among them."""
        values = self._options.model_dump(
            include={"model", "dimensions", "prompt", "parameters", "revision"}, mode="json"
        )
        return {**values, "rounding": "float16"}

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors, from the options or else from the first answer.

        Raises Transient or NeedsHuman if the server has to be asked and does not answer.
        """
        return self._options.dimensions or self._sender.dimensions or self.embed([HARMLESS]).shape[1]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, with the prompt in front."""
        return self._sender.count([self._options.prompt + text for text in texts])

    def count_unknown(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the numbers of unknown and of all tokens; both 0 without the option ``tokenizer``."""
        return count_unknown(self._sender.tokenizer, texts)

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


PLUGIN = Plugin(kind="openai", version=1, options=OpenAIOptions, build=OpenAIEmbedder)
