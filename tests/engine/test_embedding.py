"""One stream of batches for all askers: a text that the model can't take, and answers that are no use."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from ingestor.core.errors import Stopped
from ingestor.core.fingerprint import text_digest
from ingestor.engine.embedding import FIRST_ROUND, Embedding
from ingestor.engine.vectors import HARMLESS, STEP, BadVectors, check_vectors
from ingestor.engine.workers import BEGUN, Pool
from ingestor.model import EmbeddedPart, Fingerprint, Vectors
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.state.cache import VectorCache
from tests.plain_embedder import vector
from tests.waiting import wait

RECIPE = Fingerprint("11" * 16)
PLUG = "plug"  # its batch is held up until all other askers are there
ASKERS = [f"text {n}" for n in range(15)]  # and one more: a step
POISON = "poison"


class Model:
    """``answer`` sees every batch and gives its vectors, or raises. Counts the batches."""

    dimensions, window = 16, 2**31 - 1

    def __init__(self, answer: Callable[[Sequence[str]], Any]) -> None:
        self.answer, self.batches = answer, list[list[str]]()
        self.held, self.go = Event(), Event()
        self.stop: Callable[[], None] = lambda: None

    def embed(self, texts: Sequence[str]) -> Any:
        if PLUG in texts:
            self.held.set()
            assert self.go.wait(30)
            return good(texts)
        self.batches.append(list(texts))
        return self.answer(texts)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


def good(texts: Sequence[str]) -> Vectors:
    return np.array([vector(text, "plain") for text in texts], np.float32)


def picky(error: Exception) -> Callable[[Sequence[str]], Vectors]:
    def answer(texts: Sequence[str]) -> Vectors:
        if POISON in texts:
            raise error
        return good(texts)

    return answer


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache(tmp_path / "cache.sqlite3", 10**8)) as cache:
        yield cache


class Asked:
    """Counts the requests that wait for vectors, or waited: askers enter it."""

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.number += 1
        yield


def together(model: Model, cache: VectorCache, askers: Sequence[str]) -> dict[str, Any]:
    """What each asker of one text got, or the error; all of them are in one batch."""
    waiting = Asked()
    embedding = Embedding(model, RECIPE, cache, model.count, waiting)
    with ThreadPoolExecutor(len(askers) + 1) as threads, closing(embedding):
        model.stop = embedding.stop
        first = threads.submit(embedding, [PLUG])
        assert model.held.wait(30)
        asked = {text: threads.submit(embedding, [text]) for text in askers}
        wait(lambda: waiting.number > len(askers))
        model.go.set()
        first.result(30)
        return {text: outcome(future) for text, future in asked.items()}


def outcome(future: "Future[Vectors]") -> Any:
    error = future.exception(30)
    return error if error is not None else future.result()[0].tolist()


def kept(cache: VectorCache, askers: Sequence[str]) -> set[str]:
    found = cache.get(RECIPE, [text_digest(text) for text in askers])
    assert all(np.array_equal(found[d], good([t])[0]) for t in askers if (d := text_digest(t)) in found)
    return {text for text in askers if text_digest(text) in found}


def test_texts_of_a_rebuild_are_embedded_after_all_others_and_wait_between_steps(cache: VectorCache) -> None:
    many = [f"rebuilt {number}" for number in range(3 * STEP)]
    model = Model(good)
    waiting = Asked()
    embedding = Embedding(model, RECIPE, cache, model.count, waiting)
    with ThreadPoolExecutor(4) as threads, closing(embedding):
        first = threads.submit(embedding.in_background, [PLUG, *many])
        assert model.held.wait(30)
        rebuilt = threads.submit(embedding.in_background, ["rebuilt later"])
        wait(lambda: waiting.number == 2)
        edited = threads.submit(embedding, ["edited"])
        wait(lambda: waiting.number == 3)
        model.go.set()
        for future in (first, rebuilt, edited):
            future.result(30)
    order = [text for batch in model.batches for text in batch]
    assert order.index("edited") < order.index("rebuilt later")
    assert model.batches.index(["edited"]) == 1, "it waits for one step of the rebuild"


@pytest.mark.parametrize("error", [ValueError("no"), BadDocument("no"), RuntimeError("out of memory")])
def test_text_refused_by_the_model_fails_its_own_caller_only(cache: VectorCache, error: Exception) -> None:
    model = Model(picky(error))
    got = together(model, cache, [*ASKERS, POISON])
    assert got.pop(POISON) is error
    assert got == {text: good([text])[0].tolist() for text in ASKERS}
    assert kept(cache, [*ASKERS, POISON]) == set(ASKERS)
    assert len(model.batches) == 1 + 1 + len(ASKERS) + 1  # together, a word, each alone


@pytest.mark.parametrize(
    ("error", "batches"), [(Transient("away"), 1), (NeedsHuman("no licence"), 1), (OSError("refused"), 2)]
)
def test_embedder_that_is_down_fails_all_requests_together(
    cache: VectorCache, error: Exception, batches: int
) -> None:
    def down(texts: Sequence[str]) -> Vectors:
        raise error

    model = Model(down)
    got = together(model, cache, ASKERS)
    assert set(got.values()) == {error}
    assert len(model.batches) == batches
    assert kept(cache, ASKERS) == set()


SPOILT: dict[str, Callable[[Vectors], Any]] = {
    "a row too few": lambda vectors: vectors[1:],
    "a row too many": lambda vectors: np.concatenate([vectors, vectors[:1]]),
    "a dimension too few": lambda vectors: vectors[:, 1:],
    "nan": lambda vectors: np.where(vectors == vectors.max(), np.nan, vectors),
    "infinite": lambda vectors: np.where(vectors == vectors.max(), np.inf, vectors),
    "too large for float32": lambda vectors: vectors.astype(np.float64) * 1e300,
    "zero": np.zeros_like,
    "too long": lambda vectors: vectors * 1.02,
    "one list": lambda vectors: vectors[0].tolist(),
    "no numbers": lambda vectors: ["vector"] * len(vectors),
    "nothing": lambda vectors: None,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_answer_that_breaks_the_protocol_raises_and_is_not_cached(
    cache: VectorCache, spoil: Callable[[Vectors], Any]
) -> None:
    model = Model(lambda texts: spoil(good(texts)) if POISON in texts else good(texts))
    got = together(model, cache, [*ASKERS, POISON])
    assert isinstance(got[POISON], BadVectors), got[POISON]
    assert str(got.pop(POISON)).startswith("the embedder returned ")
    assert got == {text: good([text])[0].tolist() for text in ASKERS}
    assert kept(cache, [*ASKERS, POISON]) == set(ASKERS)


def test_answer_as_list_or_in_another_precision_is_accepted() -> None:
    texts = ["a", "b"]
    for answer in (good(texts).tolist(), good(texts).astype(np.float64), list(good(texts))):
        assert np.array_equal(check_vectors(answer, texts, 16), good(texts))
    assert check_vectors(good(texts).astype(np.float16), texts, 16).dtype == np.float32


def test_answer_is_copied_from_memory_that_the_embedder_reuses() -> None:
    memory = good(["a"])
    given = check_vectors(memory, ["a"], 16)
    memory[:] = good(["b"])
    assert np.array_equal(given, good(["a"]))


def test_stop_while_requests_are_answered_one_by_one_ends_the_rest(cache: VectorCache) -> None:
    def stopping(texts: Sequence[str]) -> Vectors:
        if len(texts) > 1:
            raise ValueError("one of them")
        if texts[0] in ASKERS:
            model.stop()
        return good(texts)

    model = Model(stopping)
    got = together(model, cache, ASKERS)
    answered = [answer for answer in got.values() if not isinstance(answer, Stopped)]
    assert answered == [good([text])[0].tolist() for text in kept(cache, ASKERS)]
    assert len(answered) == 1


def test_waiting_questions_are_embedded_together_and_bad_text_fails_alone(cache: VectorCache) -> None:
    model = Model(picky(BadDocument("too odd")))
    with closing(Embedding(model, RECIPE, cache, model.count)) as stream, ThreadPoolExecutor(16) as pool:
        plug = pool.submit(stream.ask, [PLUG])
        assert model.held.wait(30)
        asked = [pool.submit(stream.ask, [text, f"{text}, too"]) for text in ASKERS[:9]]
        bad = pool.submit(stream.ask, [POISON])
        wait(lambda: stream.questions == 10)
        model.go.set()
        plug.result()
        for text, one in zip(ASKERS, asked, strict=False):
            assert one.result().tolist() == good([text, f"{text}, too"]).tolist()
        with pytest.raises(BadDocument):
            bad.result()
    assert max(map(len, model.batches)) > 2


def test_waiting_for_vectors_frees_worker(cache: VectorCache) -> None:
    model, pool = Model(good), Pool(1)
    with (
        closing(pool),
        closing(Embedding(model, RECIPE, cache, model.count, pool.release_permit)) as embedding,
    ):
        pool.submit(PLUG, lambda: embedding([PLUG]))
        assert model.held.wait(30)
        for text in ASKERS[: BEGUN - 1]:
            pool.submit(text, lambda text=text: embedding([text]))
        wait(lambda: embedding.counts().waiting >= BEGUN)
        model.go.set()
        outcomes = [pool.next(30) for _ in range(BEGUN)]
        assert [one.error for one in outcomes if one is not None] == [None] * BEGUN
    assert [sorted(batch) for batch in model.batches] == [ASKERS[: BEGUN - 1]], "they went together"


class GradualModel(Model):
    """Gives each text's vector by itself, the last one first; ``forgets`` one."""

    forgets = ""

    def embed_gradually(self, texts: Sequence[str]) -> Iterator[EmbeddedPart]:
        for position in reversed(range(len(texts))):
            if texts[position] != self.forgets:
                yield EmbeddedPart([position], self.embed([texts[position]]))


def test_questions_are_answered_between_the_parts_of_a_gradual_embedder(cache: VectorCache) -> None:
    model = GradualModel(good)
    with closing(Embedding(model, RECIPE, cache, model.count)) as stream, ThreadPoolExecutor(2) as pool:
        texts = [*ASKERS, PLUG]
        vectors = pool.submit(stream, texts)
        assert model.held.wait(30)
        question = pool.submit(stream.ask, ["who?"])
        wait(lambda: stream.questions)
        model.go.set()
        assert np.array_equal(question.result(30), good(["who?"]))
        assert np.array_equal(vectors.result(30), good(texts))
    assert model.batches[1] == ["who?"], "the model was loaded by the first batch"


def test_text_skipped_by_a_gradual_embedder_fails_its_own_caller_only(cache: VectorCache) -> None:
    model = GradualModel(good)
    model.forgets = POISON
    got = together(model, cache, [*ASKERS, POISON])
    assert str(got.pop(POISON)) == "the embedder returned no vector for this text"
    assert got == {text: good([text])[0].tolist() for text in ASKERS}


def test_model_is_loaded_when_texts_are_expected(cache: VectorCache) -> None:
    model, loaded = Model(good), Event()
    model.answer = lambda texts: loaded.set() or good(texts)  # type: ignore[func-returns-value]
    with closing(Embedding(model, RECIPE, cache, model.count)) as embedding:
        embedding.expect()
        embedding.expect()
        assert loaded.wait(30)
        embedding(["a text"])
    assert model.batches == [[HARMLESS], ["a text"]]
    assert embedding.counts().texts == 1


def test_model_that_cannot_be_loaded_fails_its_askers(cache: VectorCache) -> None:
    model = Model(lambda texts: picky(NeedsHuman("gone"))([POISON]))
    with closing(Embedding(model, RECIPE, cache, model.count)) as embedding:
        embedding.expect()
        with pytest.raises(NeedsHuman, match="gone"):
            embedding(["a text"])


def test_counts_during_a_round_include_its_steps_and_the_loading(cache: VectorCache) -> None:
    seen: list[tuple[bool, tuple[int, int]]] = []

    def answer(texts: Sequence[str]) -> Vectors:
        seen.append((embedding.counts().loading, embedding.counts().texts_and_rest))
        return good(texts)

    with closing(Embedding(Model(answer), RECIPE, cache, lambda texts: [1] * len(texts))) as embedding:
        embedding([f"text {n}" for n in range(3 * STEP)])
        assert embedding.counts().texts_and_rest[0] == embedding.counts().texts == 3 * STEP
    whole = 3 * STEP
    assert seen == [
        (True, (0, whole)), *((False, (n * STEP, whole - n * STEP)) for n in range(3)),
    ]  # fmt: skip


def test_rounds_of_local_model_grow_while_requests_wait(cache: VectorCache) -> None:
    """The first documents of many get their vectors soon."""
    askers, rounds = [f"asker {number}" for number in range(200)], list[int]()

    class Rounds(Model):
        def embed_gradually(self, texts: Sequence[str]) -> Iterator[EmbeddedPart]:
            rounds.append(len(texts))
            yield EmbeddedPart(range(len(texts)), self.embed(texts))

    together(Rounds(good), cache, askers)
    assert rounds == [1, 2 * FIRST_ROUND, 4 * FIRST_ROUND, 200 - 6 * FIRST_ROUND]


@pytest.mark.parametrize(
    ("seconds", "sizes"), [(0.5, [32, 64, 128, 256, 256]), (1.5, [16, 16]), (9.0, [16, 16])]
)
def test_rounds_grow_unless_they_take_long(cache: VectorCache, seconds: float, sizes: list[int]) -> None:
    """Second vectors of a document that was begun first wait for a round of others."""
    model = Model(good)
    with closing(Embedding(model, RECIPE, cache, model.count)) as embedding:
        seen = list[int]()
        for _ in sizes:
            embedding._next_round = embedding._resize(seconds)
            seen.append(embedding._next_round)
        assert seen == sizes
        embedding._next_round = 256
        assert embedding._resize(9.0) == 128


def test_small_document_gets_vectors_before_a_large_one_begun_shortly_before(cache: VectorCache) -> None:
    embedded = list[str]()

    class Rounds(Model):
        def embed_gradually(self, texts: Sequence[str]) -> Iterator[EmbeddedPart]:
            embedded.extend(texts)
            yield EmbeddedPart(range(len(texts)), self.embed(texts))

    model, pool, waiting = Rounds(good), Pool(8), Asked()
    embedding = Embedding(model, RECIPE, cache, model.count, waiting)
    with closing(pool), closing(embedding):
        pool.submit("first", lambda: embedding([PLUG]))
        assert model.held.wait(30)
        for number, (name, size) in enumerate({"large": 200, "small": 3, "another": 3}.items(), 1):
            pool.submit(name, partial(embedding, [f"{name} {at}" for at in range(size)]))
            wait(lambda: waiting.number > number)  # noqa: B023
        model.go.set()
        assert [done.error for _ in range(4) if (done := pool.next(30))] == [None] * 4
    assert embedded.index("small 0") < embedded.index("another 0") < embedded.index("large 0")


@pytest.mark.parametrize("second", ["second vectors", "0 1"])
def test_document_begun_first_gets_second_vectors_between_the_steps_of_later_documents(
    cache: VectorCache, second: str
) -> None:
    """A text that the round under way will embed is embedded once."""
    embedded = list[str]()

    class Steps(Model):
        """The first step of others lasts until the second vectors are asked for."""

        def embed_gradually(self, texts: Sequence[str]) -> Iterator[EmbeddedPart]:
            for position, text in enumerate(texts):
                embedded.append(text)
                wait(lambda: text != "0 0" or waiting.number == 5, every=0.001)  # noqa: B023
                yield EmbeddedPart([position], self.embed([text]))

    model, pool, waiting = Steps(good), Pool(8), Asked()
    embedding = Embedding(model, RECIPE, cache, model.count, waiting)
    with closing(pool), closing(embedding):
        pool.submit("first", lambda: (embedding([PLUG]), embedding([second])))
        assert model.held.wait(30)
        for number in range(3):
            pool.submit(number, partial(embedding, [f"{number} {at}" for at in range(FIRST_ROUND)]))
            wait(lambda: waiting.number > number + 1)  # noqa: B023
        model.go.set()
        assert [found.error for _ in range(4) if (found := pool.next(30))] == [None] * 4
    assert embedded[:3] == [PLUG, "0 0", second]
    assert embedded.count(second) == 1
