"""Laws of whatever prepares documents: in this process, or in others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import monotonic

import numpy as np
import pytest

from ingestor.core.entries import Entry
from ingestor.core.errors import Stopped
from ingestor.engine.workers import Outcome, Pool
from ingestor.model import DocumentId, Known
from ingestor.nodes.documents import OnNodes
from ingestor.pipeline.prepare import Job, Preparing, prepare
from ingestor.ports import BadDocument, Collective, Later
from tests.nodes import shop

STRATEGIES = ("recursive", "sentence", "changepoint", "cluster")


def nobody(edition: object, content: object) -> Entry | None:
    return None


@contextmanager
def pooled(workers: int = 4) -> Iterator[Pool]:
    pool = Pool(workers)
    try:
        yield pool
    finally:
        pool.close()


def outcomes(pool: Pool, number: int) -> list[Outcome]:
    found, deadline = list[Outcome](), monotonic() + 120
    while len(found) < number and monotonic() < deadline:
        if (outcome := pool.next(0.5)) is not None:
            found.append(outcome)
    return found


class PreparingLaws:
    """A subclass has a fixture ``preparing``."""

    def test_every_task_is_answered_once(self, preparing: Preparing) -> None:
        texts = shop.Texts({f"{number}.txt": f"{shop.TEXT} {number}" for number in range(8)})
        tools = shop.tools("recursive", texts)
        with pooled() as pool:
            for number, key in enumerate(texts.texts):
                job = Job(shop.entry(key, number))
                pool.submit(key, partial(preparing, job, tools, nobody))
            found = outcomes(pool, 8)
            assert pool.next(0.1) is None
        assert sorted(str(each.tag) for each in found) == sorted(texts.texts)
        assert not [each.error for each in found if each.error]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_answer_is_that_of_a_direct_call(self, preparing: Preparing, strategy: str) -> None:
        tools = shop.tools(strategy, shop.Texts({"a.txt": shop.TEXT}))
        job = Job(shop.entry("a.txt"))
        direct = prepare(job, tools, nobody)
        assert direct.records
        assert shop.plain(preparing(job, tools, nobody)) == shop.plain(direct)
        if isinstance(tools.chunker, Collective):
            assert direct.receipt.sums is not None
            job = Job(job.entry, np.array(direct.receipt.sums) * 3)
            again = shop.plain(prepare(job, tools, nobody))
            assert shop.plain(preparing(job, tools, nobody)) == again

    def test_edit_beside_a_plan_writes_the_planned_changes(self, preparing: Preparing) -> None:
        texts = shop.Texts({"a.txt": shop.TEXT})
        tools = shop.tools("sentence", texts)
        first = prepare(Job(shop.entry("a.txt")), tools, nobody)
        texts.texts["a.txt"] = shop.TEXT.replace("Sentence 3 of part 2", "Something else")
        job = Job(_settled(shop.entry("a.txt"), first.receipt.records))
        direct = prepare(job, tools, nobody)
        assert 0 < len(direct.records) < len(first.records)
        assert shop.plain(preparing(job, tools, nobody)) == shop.plain(direct)

    def test_unchanged_document_is_only_noted(self, preparing: Preparing) -> None:
        tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
        receipt = prepare(Job(shop.entry("a.txt")), tools, nobody).receipt
        entry = replace(
            shop.entry("a.txt"), done_version="0", done_recipe=receipt.recipe, facts=receipt.facts,
            digest=receipt.digest, parser=receipt.parser, records=receipt.records,
        )  # fmt: skip
        found = preparing(Job(entry), replace(tools, embed=shop.never), nobody)
        assert not (found.records or found.patches or found.deletes)

    def test_records_of_a_vanished_document_are_reused(self, preparing: Preparing) -> None:
        tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT, "b.txt": shop.TEXT}))
        records = prepare(Job(shop.entry("a.txt")), tools, nobody).receipt.records
        vanished = replace(_settled(shop.entry("a.txt", 7), records), document_id=DocumentId("old"))
        found = preparing(Job(shop.entry("b.txt", 8)), tools, lambda edition, content: vanished)
        assert found.intent.row == 7
        assert not found.records

    @pytest.mark.parametrize("kind", [*shop.ERRORS])
    @pytest.mark.parametrize("where", ["raise", "fetch"])
    def test_errors_keep_their_class_and_text(self, preparing: Preparing, where: str, kind: str) -> None:
        tools = shop.tools("sentence", shop.Texts({"a.txt": f"{where}:{kind}"}))
        wanted = shop.ERRORS[kind]()
        with pytest.raises(Exception) as found:
            preparing(Job(shop.entry("a.txt")), tools, nobody)
        assert str(wanted) in str(found.value)
        if kind != "odd":
            assert (type(found.value), found.value.args) == (type(wanted), wanted.args)
        if isinstance(wanted, Later):
            assert isinstance(found.value, Later)
            assert found.value.wait == wanted.wait

    def test_error_of_the_embedder_is_that_of_its_document(self, preparing: Preparing) -> None:
        texts = shop.Texts({"a.txt": "This is unembeddable.", "b.txt": shop.TEXT})
        tools = shop.tools("sentence", texts)
        with pytest.raises(BadDocument, match="the model cannot take it"):
            preparing(Job(shop.entry("a.txt")), tools, nobody)
        assert preparing(Job(shop.entry("b.txt")), tools, nobody).records


class ProcessLaws(PreparingLaws):
    """Laws of processes. A subclass has ``on_nodes``, and ``fresh``, which a test may stop."""

    @pytest.fixture
    def preparing(self, on_nodes: OnNodes) -> OnNodes:
        return on_nodes

    def test_document_that_kills_two_processes_is_quarantined(self, on_nodes: OnNodes) -> None:
        tools = shop.tools("sentence", shop.Texts({"a.txt": "exit:", "b.txt": shop.TEXT}))
        before = on_nodes.lost
        with pytest.raises(BadDocument, match="crashes processes on nodes"):
            on_nodes(Job(shop.entry("a.txt")), tools, nobody)
        assert on_nodes.lost - before == 2
        assert on_nodes(Job(shop.entry("b.txt")), tools, nobody).records

    def test_waiting_calls_are_stopped(self, fresh: OnNodes) -> None:
        texts = shop.Texts({f"{number}.txt": shop.TEXT for number in range(8)})

        def stop(wanted: object) -> object:
            fresh.stop()
            raise Stopped

        tools = replace(shop.tools("sentence", texts), embed=stop)  # type: ignore[arg-type]
        with pooled() as pool:
            for number, key in enumerate(texts.texts):
                job = Job(shop.entry(key, number))
                pool.submit(key, partial(fresh, job, tools, nobody))
            found = outcomes(pool, 8)
        assert {type(each.error) for each in found} == {Stopped}
        assert len(found) == 8


def _settled(entry: Entry, records: tuple[Known, ...]) -> Entry:
    return replace(
        entry, done_version="0", done_recipe="r", facts="f", digest="d", parser="text", records=records
    )
