"""An embedder that asks a server: errors of single texts, another server, another key."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ingestor.core.fingerprint import text_digest
from ingestor.engine.embedding import Embedding, Embeddings
from ingestor.engine.vectors import HARMLESS, BadVectors
from ingestor.model import Answered, Fingerprint, Vector, Vectors
from ingestor.ports import BadDocument, NeedsHuman, Remote, Stop, Transient
from ingestor.state.cache import VectorCache
from tests.plain_embedder import vector

RECIPE = Fingerprint("11" * 16)
Answer = Callable[[str], Vector | Exception]


class Server:
    """Gives each text a vector or an error. ``asked``: all texts, in their order."""

    dimensions, window, at_once = 16, 2**31 - 1, 512

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        raise AssertionError("each text has an answer of its own")

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        self.asked += texts
        return Answered([self.answer(text) for text in texts], 10 * len(texts))

    def count(self, texts: Sequence[str]) -> list[int]:
        return [1] * len(texts)


def plain(text: str) -> Vector:
    return np.array(vector(text, "plain"), np.float32)


def other(text: str) -> Vector:
    return -plain(text)


def failing(error: Exception) -> Answer:
    return lambda text: error if text == "bad" else plain(text)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache(tmp_path / "cache.sqlite3", 10**8)) as cache:
        yield cache


def stream(server: Server, cache: VectorCache) -> "closing[Embedding]":
    assert isinstance(server, Remote)
    return closing(Embedding(server, RECIPE, cache, server.count))


@pytest.mark.parametrize("error", [BadDocument("no"), Transient("away"), NeedsHuman("pay")])
def test_error_fails_its_text_only_and_no_text_is_sent_twice(cache: VectorCache, error: Exception) -> None:
    server = Server(failing(error))
    with stream(server, cache) as embedding:
        with pytest.raises(type(error)):
            embedding(["good", "bad"])
        assert np.array_equal(embedding(["good"]), [plain("good")])
        assert (embedding.counts().texts, embedding.counts().tokens) == (1, 30)
    assert server.asked == [HARMLESS, "good", "bad"]


def test_vectors_of_a_server_that_became_another_are_not_kept(cache: VectorCache) -> None:
    with stream(Server(plain), cache) as embedding:
        embedding(["a"])
    server = Server(other)
    with stream(server, cache) as embedding:
        for _ in range(2):
            with pytest.raises(NeedsHuman, match=r"cosine -1.00\), so it runs another model"):
                embedding(["b"])
        server.answer = plain
        assert np.array_equal(embedding(["b"]), [plain("b")])
    assert server.asked == [HARMLESS, "b"] * 3
    assert text_digest("b") in cache.get(RECIPE, [text_digest("b")])


def test_server_replaced_without_a_failure_is_noticed(cache: VectorCache) -> None:
    server = Server(plain)
    with stream(server, cache) as embedding:
        embedding(["a"])
        server.answer = other
        with pytest.raises(NeedsHuman, match="another model"):
            embedding(["b"])
    assert not cache.get(RECIPE, [text_digest("b")])


def test_vectors_that_break_the_protocol_are_not_kept(cache: VectorCache) -> None:
    server = Server(lambda text: plain(text) * (1 if text == HARMLESS else 2))
    with stream(server, cache) as embedding, pytest.raises(BadVectors):
        embedding(["a"])
    assert not cache.get(RECIPE, [text_digest("a")])


def test_another_key_takes_effect_at_once(cache: VectorCache) -> None:
    one, two = Server(plain), Server(plain)
    streams = Embeddings(cache, one.count)
    with closing(streams):
        first = streams.of(RECIPE, lambda: one, "old key")
        first(["a"])
        streams.keep({RECIPE})
        assert streams.of(RECIPE, lambda: one, "old key") is first
        streams.keep({RECIPE})
        second = streams.of(RECIPE, lambda: two, "new key")
        assert second is not first
        second(["b"])
        assert (streams.counts().texts, streams.counts().tokens) == (2, 40)
    assert "b" in two.asked


def test_two_collections_of_one_recipe_share_the_stream_to_its_server(cache: VectorCache) -> None:
    """Each has an embedder of its own, and perhaps the settings of another day."""
    streams = Embeddings(cache, Server(plain).count)
    with closing(streams):
        for _ in range(3):  # configs
            both = [streams.of(RECIPE, lambda: Server(plain), setting) for setting in ("new", "old")]
            streams.keep({RECIPE})
            assert both[0] is both[1]
            for embed in both:
                embed(["a"])
        assert streams.of(RECIPE, lambda: Server(plain), "new") is both[0]
