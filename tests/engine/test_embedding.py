"""One queue of batches for all askers: refused texts, useless answers, order, and servers that embed."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from ingestor.core.errors import Stopped
from ingestor.core.fingerprint import text_digest
from ingestor.engine.embedding import FIRST_ROUND, Embedding, Embeddings, Waiting
from ingestor.engine.vectors import HARMLESS, STEP, BadVectors, check_vectors
from ingestor.engine.workers import BEGUN, Lane, Pool
from ingestor.model import Answered, EmbeddedPart, Fingerprint, Vector, Vectors
from ingestor.ports import BadDocument, NeedsHuman, Stop, Transient
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


class GradualModel(Model):
    """Gives vectors in parts. ``parts``: the positions of each part, for the texts of a round."""

    def __init__(
        self,
        parts: Callable[[Sequence[str]], list[Sequence[int]]],
        before: Callable[[list[str]], object] = lambda texts: None,
    ) -> None:
        super().__init__(good)
        self.parts, self.before = parts, before

    def embed_gradually(self, texts: Sequence[str]) -> Iterator[EmbeddedPart]:
        for part in self.parts(texts):
            self.before([texts[at] for at in part])
            yield EmbeddedPart(part, self.embed([texts[at] for at in part]))


def at_once(texts: Sequence[str]) -> list[Sequence[int]]:
    return [range(len(texts))]


def one_by_one(texts: Sequence[str]) -> list[Sequence[int]]:
    return [[at] for at in range(len(texts))]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache(tmp_path / "cache.sqlite3", 10**8)) as cache:
        yield cache


def stream(model: Any, cache: VectorCache, waiting: Waiting = nullcontext) -> "closing[Embedding]":
    return closing(Embedding(model, RECIPE, cache, model.count, waiting))


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
    with ThreadPoolExecutor(len(askers) + 1) as threads, stream(model, cache, waiting) as embedding:
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
    model, waiting, pool, rebuild = Model(good), Asked(), Pool(4), Lane("docs", background=True)
    with closing(pool), stream(model, cache, waiting) as embedding:
        pool.submit("first", lambda: embedding([PLUG, *many]), lane=rebuild)
        assert model.held.wait(30)
        pool.submit("rebuilt", lambda: embedding(["rebuilt later"]), lane=rebuild)
        wait(lambda: waiting.number == 2)
        pool.submit("edited", lambda: embedding(["edited"]))
        wait(lambda: waiting.number == 3)
        model.go.set()
        assert [done.error for _ in range(3) if (done := pool.next(30))] == [None] * 3
    order = [text for batch in model.batches for text in batch]
    assert order.index("edited") < order.index("rebuilt later")
    assert model.batches.index(["edited"]) == 1, "it waits for one step of the rebuild"


def spoilt(texts: Sequence[str]) -> Vectors:
    return good(texts)[POISON in texts :]


def forgetting(texts: Sequence[str]) -> list[Sequence[int]]:
    return [[at] for at, text in enumerate(texts) if text != POISON]


ALONE = 1 + len(ASKERS) + 1  # batches: together, each alone


@pytest.mark.parametrize(
    ("model", "error", "batches"),
    [
        (Model(picky(ValueError("a value"))), "a value", ALONE),
        (Model(picky(BadDocument("a document"))), "a document", ALONE),
        (Model(picky(RuntimeError("out of memory"))), "out of memory", ALONE),
        (Model(spoilt), "the embedder returned ", ALONE),
        (GradualModel(forgetting), "the embedder returned no vector for this text", len(ASKERS)),
    ],
)
def test_text_refused_by_the_model_fails_its_own_caller_only(
    cache: VectorCache, model: Model, error: str, batches: int
) -> None:
    got = together(model, cache, [*ASKERS, POISON])
    assert str(got.pop(POISON)).startswith(error)
    assert got == {text: good([text])[0].tolist() for text in ASKERS}
    assert kept(cache, [*ASKERS, POISON]) == set(ASKERS)
    assert len(model.batches) == batches


@pytest.mark.parametrize(
    ("error", "batches"), [(Transient("away"), 1), (NeedsHuman("no licence"), 1), (OSError("refused"), 16)]
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
def test_answer_that_breaks_the_protocol_raises(spoil: Callable[[Vectors], Any]) -> None:
    with pytest.raises(BadVectors, match="the embedder returned "):
        check_vectors(spoil(good(["a"])), ["a"], 16)


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
    with stream(model, cache) as embedding, ThreadPoolExecutor(16) as pool:
        plug = pool.submit(embedding.ask, [PLUG])
        assert model.held.wait(30)
        asked = [pool.submit(embedding.ask, [text, f"{text}, too"]) for text in ASKERS[:9]]
        bad = pool.submit(embedding.ask, [POISON])
        wait(lambda: embedding.questions == 10)
        model.go.set()
        plug.result()
        for text, one in zip(ASKERS, asked, strict=False):
            assert one.result().tolist() == good([text, f"{text}, too"]).tolist()
        with pytest.raises(BadDocument):
            bad.result()
    assert max(map(len, model.batches)) > 2


def test_waiting_for_vectors_frees_worker(cache: VectorCache) -> None:
    model, pool = Model(good), Pool(1)
    with closing(pool), stream(model, cache, pool.release_permit) as embedding:
        pool.submit(PLUG, lambda: embedding([PLUG]))
        assert model.held.wait(30)
        for text in ASKERS[: BEGUN - 1]:
            pool.submit(text, lambda text=text: embedding([text]))
        wait(lambda: embedding.counts().waiting >= BEGUN)
        model.go.set()
        outcomes = [pool.next(30) for _ in range(BEGUN)]
        assert [one.error for one in outcomes if one is not None] == [None] * BEGUN
    assert [sorted(batch) for batch in model.batches] == [ASKERS[: BEGUN - 1]], "they went together"


def test_questions_are_answered_between_the_parts_of_a_gradual_embedder(cache: VectorCache) -> None:
    model = GradualModel(lambda texts: one_by_one(texts)[::-1])
    with stream(model, cache) as embedding, ThreadPoolExecutor(2) as pool:
        texts = [*ASKERS, PLUG]
        vectors = pool.submit(embedding, texts)
        assert model.held.wait(30)
        question = pool.submit(embedding.ask, ["who?"])
        wait(lambda: embedding.questions)
        model.go.set()
        assert np.array_equal(question.result(30), good(["who?"]))
        assert np.array_equal(vectors.result(30), good(texts))
    assert model.batches[1] == ["who?"], "the model was loaded by the first batch"


def test_model_is_loaded_when_texts_are_expected(cache: VectorCache) -> None:
    model, loaded = Model(good), Event()
    model.answer = lambda texts: loaded.set() or good(texts)  # type: ignore[func-returns-value]
    with stream(model, cache) as embedding:
        embedding.expect()
        embedding.expect()
        assert loaded.wait(30)
        embedding(["a text"])
    assert model.batches == [[HARMLESS], ["a text"]]
    assert embedding.counts().texts == 1


def test_model_that_cannot_be_loaded_fails_its_askers(cache: VectorCache) -> None:
    model = Model(lambda texts: picky(NeedsHuman("gone"))([POISON]))
    with stream(model, cache) as embedding:
        embedding.expect()
        with pytest.raises(NeedsHuman, match="gone"):
            embedding(["a text"])


def test_counts_during_a_round_include_the_loading(cache: VectorCache) -> None:
    seen, whole = list[tuple[bool, int, int]](), 2 * STEP

    def answer(texts: Sequence[str]) -> Vectors:
        counts = embedding.counts()
        seen.append((counts.loading, counts.texts, counts.waiting))
        return good(texts)

    with stream(Model(answer), cache) as embedding:
        embedding([f"text {n}" for n in range(whole)])
        assert (embedding.counts().texts, embedding.counts().waiting) == (whole, 0)
    assert seen == [(True, 0, whole), (False, 0, whole), (False, 0, whole)]


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        ([0.5] * 9, [2, 4, 6.5]),  # 6.5: all that are left
        ([1.5] * 99, [1, 1, 1]),
        ([9.0] * 99, [1, 1, 1]),
        ([0.5] + [1.5] * 99, [2, 2, 2]),
        ([0.5] + [9.0] * 99, [2, 1, 1]),
    ],
)
def test_rounds_of_local_model_grow_while_requests_wait_unless_they_take_long(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch, seconds: list[float], sizes: list[float]
) -> None:
    """The first documents of many get their vectors soon, and a document's second vectors wait little."""
    now, rounds = [0.0], list[int]()

    def embed(texts: Sequence[str]) -> None:
        rounds.append(len(texts))
        now[0] += seconds[len(rounds) - 1]

    monkeypatch.setattr("ingestor.engine.embedding.monotonic", lambda: now[0])
    together(GradualModel(at_once, embed), cache, [f"asker {number}" for number in range(200)])
    assert rounds[:4] == [1, *(FIRST_ROUND * size for size in sizes)]


def test_small_document_gets_vectors_before_a_large_one_begun_shortly_before(cache: VectorCache) -> None:
    embedded, pool, waiting = list[str](), Pool(8), Asked()
    model = GradualModel(at_once, embedded.extend)
    with closing(pool), stream(model, cache, waiting) as embedding:
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
    embedded, pool, waiting = list[str](), Pool(8), Asked()

    def step(texts: list[str]) -> None:
        """The first step of others lasts until the second vectors are asked for."""
        embedded.extend(texts)
        wait(lambda: texts != ["0 0"] or waiting.number == 5, every=0.001)

    model = GradualModel(one_by_one, step)
    with closing(pool), stream(model, cache, waiting) as embedding:
        pool.submit("first", lambda: (embedding([PLUG]), embedding([second])))
        assert model.held.wait(30)
        for number in range(3):
            pool.submit(number, partial(embedding, [f"{number} {at}" for at in range(FIRST_ROUND)]))
            wait(lambda: waiting.number > number + 1)  # noqa: B023
        model.go.set()
        assert [found.error for _ in range(4) if (found := pool.next(30))] == [None] * 4
    assert embedded[:3] == [PLUG, "0 0", second]
    assert embedded.count(second) == 1


# --- servers ------------------------------------------------------------------------------------------------

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
    vectors: Vectors = good([text])
    return vectors[0]


def other(text: str) -> Vector:
    return -plain(text)


@pytest.mark.parametrize("error", [BadDocument("no"), Transient("away"), NeedsHuman("pay")])
def test_error_fails_its_text_only_and_no_text_is_sent_twice(cache: VectorCache, error: Exception) -> None:
    server = Server(lambda text: error if text == "bad" else plain(text))
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
    with closing(Embeddings(cache, one.count)) as streams:
        first = streams.of(RECIPE, lambda: one)
        first(["a"])
        assert streams.of(RECIPE, lambda: two) is first
        first(["b"])
        assert (streams.counts().texts, streams.counts().tokens) == (2, 40)
    assert (one.asked, two.asked) == ([HARMLESS, "a"], [HARMLESS, "b"])


def test_another_number_of_texts_at_once_takes_effect_at_once(cache: VectorCache) -> None:
    one, two = Server(plain), Server(plain)
    two.at_once = 2 * one.at_once
    texts = [f"text {number}" for number in range(two.at_once)]
    with closing(Embeddings(cache, one.count)) as streams:
        first = streams.of(RECIPE, lambda: one)
        streams.of(RECIPE, lambda: two)
        first(texts)
    assert two.asked == [HARMLESS, *texts], "one round"


def test_local_model_stays_loaded_under_another_config(cache: VectorCache) -> None:
    model = Model(good)
    with closing(Embeddings(cache, model.count)) as streams:
        first = streams.of(RECIPE, lambda: model)
        assert streams.of(RECIPE, lambda: Model(good)) is first
        assert first.embedder is model
        streams.keep(())
        assert streams.of(RECIPE, lambda: model) is not first
