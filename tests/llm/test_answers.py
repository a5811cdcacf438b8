"""Answers are kept, asked for once, and counted; a plan asks nobody."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from ingestor.core.errors import Stopped
from ingestor.core.fingerprint import text_digest
from ingestor.llm.answers import CachedAnswers, DryRunAnswers
from ingestor.llm.client import Completion, Prompt
from ingestor.ports import Transient
from ingestor.state.cache import VectorCache
from tests.waiting import LONG, wait


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    opened = VectorCache(tmp_path / "cache.sqlite3", 10**8)
    yield opened
    opened.close()


def question(text: str, price: float = 0.0) -> Prompt:
    return Prompt((("system", "Answer."), ("user", text)), text_digest(text), price)


def answering(text: str, asked: list[str]) -> Callable[[], Completion]:
    def ask() -> Completion:
        asked.append(text)
        return Completion(text, 100, 10, 0.25)

    return ask


def test_question_is_requested_once(cache: VectorCache) -> None:
    kept, asked = CachedAnswers(cache), list[str]()
    for _ in range(3):
        assert kept.answer(question("one"), answering("eins", asked)) == "eins"
    assert kept.answer(question("two"), answering("zwei", asked)) == "zwei"
    assert asked == ["eins", "zwei"]
    assert kept.counts() == {"calls": 2, "prompt_tokens": 200, "completion_tokens": 20, "cost": 0.5}
    assert CachedAnswers(cache).answer(question("one"), answering("uno", asked)) == "eins"


def test_empty_answer_is_cached(cache: VectorCache) -> None:
    kept, asked = CachedAnswers(cache), list[str]()
    assert [kept.answer(question("one"), answering("", asked)) for _ in range(2)] == ["", ""]
    assert asked == [""]


def test_failed_request_is_sent_again(cache: VectorCache) -> None:
    def fail() -> Completion:
        raise Transient("busy")

    kept, asked = CachedAnswers(cache), list[str]()
    with pytest.raises(Transient):
        kept.answer(question("one"), fail)
    assert kept.answer(question("one"), answering("eins", asked)) == "eins"
    assert kept.calls == 1


def test_equal_parallel_questions_are_sent_once(cache: VectorCache) -> None:
    kept, asked, go_on = CachedAnswers(cache), list[str](), Event()

    def slowly() -> Completion:
        asked.append("eins")
        go_on.wait(LONG)
        return Completion("eins")

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(kept.answer, question("one"), slowly) for _ in range(8)]
        wait(lambda: asked)
        other = pool.submit(CachedAnswers(cache).answer, question("another"), answering("anders", []))
        go_on.set()
        assert {answer.result() for answer in answers} == {"eins"}
        assert other.result() == "anders"
    assert asked == ["eins"]


def test_answers_after_a_stop_are_cached_ones(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> None:
    kept, asked = CachedAnswers(cache), list[str]()
    kept.answer(question("one"), answering("eins", asked))
    kept.wait(0)
    with caplog.at_level(logging.INFO):
        kept.stop()
    assert kept.answer(question("one"), answering("eins", asked)) == "eins"
    with pytest.raises(Stopped):
        kept.answer(question("two"), answering("zwei", asked))
    with pytest.raises(Stopped):
        kept.wait(3600)
    assert asked == ["eins"]
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["calls"]) == ("language models answered 1 requests", 1)


def test_stop_without_questions_logs_nothing(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        CachedAnswers(cache).stop()
    assert caplog.records == []


def test_plan_calls_no_language_model(cache: VectorCache) -> None:
    asked: list[str] = []
    CachedAnswers(cache).answer(question("known"), answering("bekannt", asked))
    reckoned = DryRunAnswers(cache, lambda texts: [len(text) for text in texts])
    assert reckoned.answer(question("known"), answering("?", asked)) == "bekannt"
    for _ in range(2):
        assert reckoned.answer(question("one", price=2.0), answering("?", asked)) is None
    assert reckoned.answer(question("three", price=0.0), answering("?", asked)) is None
    assert asked == ["bekannt"]
    assert (reckoned.calls, reckoned.prompt_tokens) == (2, len("Answer.one") + len("Answer.three"))
    assert reckoned.cost == pytest.approx(2.0 * len("Answer.one") / 1e6)


def test_plan_without_a_cache_counts_every_request() -> None:
    reckoned = DryRunAnswers(None, lambda texts: [1 for _ in texts])
    assert reckoned.answer(question("one"), answering("?", [])) is None
    assert (reckoned.calls, reckoned.prompt_tokens) == (1, 2)
