"""Documents that are removed, change or are paused while they are prepared."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ingestor.core.errors import Stopped
from ingestor.engine.workers import Outcome, Pool
from ingestor.state.sources import SourceRows
from tests.engine.listed import begun as begun_documents
from tests.simulation.checks.at_rest import check
from tests.simulation.ports.workers import done
from tests.simulation.world import FILES, World


@contextmanager
def begun(folder: Path, text: str = "a line") -> Iterator[tuple[World, Callable[[], None]]]:
    """A program that prepares a document; the function lets the outcomes of all that was read so far come."""
    world, withheld = World(folder, seed=1), list[Outcome]()
    world.withheld = withheld
    submit, outcomes = world.engine.pool.submit, world.pool.outcomes

    def submitted(tag: Any, work: Callable[[], object], *, scan: bool = False, lane: Any = None) -> None:
        if scan:
            submit(tag, work, scan=True)
        else:
            withheld.append(done(tag, work))

    def end() -> None:
        outcomes.extend(withheld)
        withheld.clear()

    world.engine.pool.submit = submitted  # type: ignore[method-assign]
    world.files.write("a", text)
    while not withheld:
        world.engine_step()
    yield world, end
    world.engine.pool.submit = submit  # type: ignore[method-assign]
    end()
    world.settle()
    check(world)
    world.journal.close()


def steps(world: World, number: int = 6) -> None:
    for _ in range(number):
        world.now += 2
        world.engine.scanner.request_listing()
        world.engine_step()


def texts(world: World) -> list[str]:
    index, _ = world.shelves.collections["docs"]
    return [record.text for record in index.inner.read(list(index.inner.ids()))]


def test_document_removed_while_prepared_is_not_written(tmp_path: Path) -> None:
    with begun(tmp_path) as (world, end):
        world.files.delete("a")
        steps(world)
        end()
        writes = list[Any]()
        index, _ = world.shelves.collections["docs"]
        upsert = index.upsert
        index.upsert = lambda records: (writes.append(records), upsert(records))  # type: ignore[method-assign]
        steps(world)
        assert writes == []


def test_document_changed_while_prepared_is_prepared_again_at_once(tmp_path: Path) -> None:
    with begun(tmp_path, "first") as (world, end):
        world.files.write("a", "second")
        steps(world)
        end()
        steps(world, 1)
        assert texts(world) == []
        end()
        steps(world)
        assert texts(world) == ["second"]


def test_document_that_changes_all_the_time_is_written_every_other_version(tmp_path: Path) -> None:
    seen = set[str]()
    with begun(tmp_path, "0") as (world, end):
        for number in range(1, 9):
            world.files.write("a", f"{number}")
            steps(world)
            end()
            steps(world, 1)
            seen |= set(texts(world))
    assert len(seen) == 4


def test_documents_of_a_paused_source_are_not_written_until_it_resumes(tmp_path: Path) -> None:
    with begun(tmp_path) as (world, end):
        SourceRows(world.journal).pause(FILES, world.now)
        end()
        steps(world)
        assert texts(world) == []
        SourceRows(world.journal).resume(FILES)
        steps(world)
        end()
        steps(world)
        assert texts(world) == ["a line"]


@pytest.mark.parametrize("rests", [True, False])
def test_cancelled_work_ends_where_it_waits_or_before_it_begins(rests: bool) -> None:
    pool, under_way, revoked = Pool(1), Event(), Event()

    def work() -> str:
        under_way.set()
        assert revoked.wait(30)
        if rests:
            with pool.release_permit():
                pass
        return "done"

    with closing(pool):
        first, second = begun_documents(range(2))
        pool.submit(first, work)
        assert under_way.wait(30)
        pool.submit(second, lambda: "done")
        first.cancelled = second.cancelled = True
        revoked.set()
        outcomes = {one.tag: one for _ in range(2) if (one := pool.next(30)) is not None}
    assert isinstance(outcomes[second].error, Stopped)
    assert isinstance(outcomes[first].error, Stopped) if rests else outcomes[first].value == "done"
