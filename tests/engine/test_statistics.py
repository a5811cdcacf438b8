"""Documents whose cuts depend on their whole collection are written as they are read, and cut again once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ingestor.core.entries import EditionName, Entry
from ingestor.engine.flight import Flight, InFlight, Phase
from ingestor.model import DocumentId, SourceName
from ingestor.pipeline.prepare import Job, Prepared, prepare
from ingestor.state.journal import Journal
from tests.simulation.checks.at_rest import check
from tests.simulation.ports.workers import Paced
from tests.simulation.world import World
from tests.state.journals import of_collection


def world_of(folder: Path, documents: int) -> World:
    """Documents with lines of other lengths each: every one moves the statistic."""
    world, random = World(folder, seed=1, collective=True), Random(1)
    for number in range(documents):
        length = random.randrange(3, 14)
        lines = [f"{n} ".ljust(length, "x") for n in range(random.randrange(2, 9))]
        world.files.write(f"{number:02}.txt", "\n".join(lines))
    return world


def withhold(world: World, key: str) -> None:
    """Never prepare the document of this key."""
    submit = world.engine.pool.submit

    def submitted(tag: Any, work: Callable[[], object], *, scan: bool = False, lane: Any = None) -> None:
        if scan or tag.entry.key != key:
            submit(tag, work, scan=scan)

    world.engine.pool.submit = submitted  # type: ignore[method-assign]


def with_records(world: World) -> list[str]:
    [feed] = world.engine.sources
    return [entry.key for entry in of_collection(world.journal, feed.edition) if entry.known]


def prepared_by(world: World) -> list[Job]:
    """The jobs that the engine has prepared from now on."""
    jobs, preparing = list[Job](), world.engine.preparing

    def noting(job: Job, *rest: Any) -> Prepared:
        jobs.append(job)
        return preparing(job, *rest)

    world.engine.preparing = noting
    return jobs


def test_document_of_first_pass_has_records_while_another_is_still_read(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, collective=True)
    for name in ("hangs", "sound"):
        world.files.write(name, "a line\nanother line")
    withhold(world, "hangs")
    for _ in range(4):
        world.engine_step()
        world.now += 0.5
    assert with_records(world) == ["sound"]
    world.journal.close()


@pytest.mark.parametrize("pace", [1, 7, 40])
def test_first_pass_writes_less_than_a_third_of_its_records_twice(tmp_path: Path, pace: int) -> None:
    """However many documents are prepared at the same time: each is cut for all that were read before."""
    world = world_of(tmp_path, 60)
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, pace)
    jobs = prepared_by(world)
    while not (world.engine.is_resting() and with_records(world)):
        world.now += 1.0
        pool.begin_round()
        world.engine_step()
    tally, [feed] = world.engine.writer.counts.tally(), world.engine.sources
    there = sum(len(entry.known) for entry in of_collection(world.journal, feed.edition))
    written = tally["records_added"] + tally["records_replaced"] + tally["records_patched"]
    times = Counter(job.entry.key for job in jobs)
    check(world)
    world.journal.close()
    assert there > 150
    assert there < written <= 1.3 * there
    assert (tally["added"], tally["changed"], tally["recut"]) == (60, 0, len(jobs) - 60)
    assert max(times.values()) == 2, "once as they are read, and once when the statistic is settled"
    assert all(job.entry.state == "settled" for job in jobs[60:]), "after all were read"


def test_documents_to_cut_again_are_begun_together(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, collective=True, ahead=40)
    for number in range(30):
        world.files.write(f"{number:02}", "xx\nxx\nxx\nxx\nxx")
    world.settle()
    world.files.write("long", "\n".join("x" * 100 for _ in range(90)))
    jobs, most = prepared_by(world), 0
    world.engine.scanner.request_listing()
    for _ in range(12):
        world.now += 1.0
        world.engine_step()
        most = max(most, len(world.engine.flight.documents()))
    assert (len(jobs), most) == (31, 30)
    world.settle()
    check(world)
    world.end()


def test_new_document_among_drifted_ones_goes_first(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, collective=True, ahead=40)
    for number in range(30):
        world.files.write(f"{number:02}", "xx\nxx\nxx\nxx\nxx")
    world.settle()
    world.files.write("long", "\n".join("x" * 100 for _ in range(90)))
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, 1)
    world.engine.scanner.request_listing()
    while len(world.engine.flight.documents()) < 20:
        world.now += 1.0
        pool.begin_round()
        world.engine_step()
    world.files.write("new", "yy")
    world.engine.scanner.request_listing()
    rounds = 0
    while "new" not in with_records(world):
        rounds += 1
        world.now += 1.0
        pool.begin_round()
        world.engine_step()
    assert rounds < 6 < len(world.engine.flight.documents())
    world.journal.close()


def cut(world: World, key: str, others: int, by_now: int) -> tuple[int, int]:
    """Prepare a document of eight lines of two characters; its cuts change where the mean line has six.

    ``others``: characters in ten lines of others, when it begins and once its sums are known. Returns how
    many chunks it has, and how often it was cut.
    """
    [feed], times = world.engine.sources, list[str]()
    tools = world.engine.sources[feed].tools
    sums = [np.array([10, each], np.int64) for each in (others, by_now)]
    chunk = tools.chunker.chunk
    entry = next(each for each in of_collection(world.journal, feed.edition) if each.key == key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(tools.chunker), "chunk", lambda self, *args: (times.append(key), chunk(*args))[1])
        found = prepare(Job(entry, sums[0], lambda own: sums[1]), tools, lambda *_: None)
    return len(found.receipt.records), len(times)


def test_document_is_cut_once_more_if_the_statistic_moved_while_it_waited_for_vectors(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, collective=True)
    world.files.write("a", "\n".join(["xx"] * 8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.engine, "_dispatch", lambda: None)
        for _ in range(3):
            world.engine_step()
    assert cut(world, "a", 20, 20) == (8, 1)
    assert cut(world, "a", 200, 200) == (4, 1)
    assert cut(world, "a", 20, 200) == (4, 2)
    assert cut(world, "a", 200, 20) == (8, 2)
    world.settle()
    assert cut(world, "a", 20, 20) == (8, 0), "nothing changed, and its cuts hold"
    assert cut(world, "a", 200, 200) == (4, 1), "nothing changed but the statistic"
    world.end()


def document_of(row: int, sums: int | None = None, statistic: str = "mean") -> InFlight:
    entry = Entry(
        row, DocumentId(f"{row}"), SourceName("s"), EditionName("docs"), f"{row}", None,
        None, None, None, None, None, 0,
    )  # fmt: skip
    if sums is not None:
        entry = replace(entry, statistic="mean", sums=np.array([sums]))
    return InFlight(entry, statistic=statistic)


def test_sums_of_documents_that_wait_count_for_others_until_they_land(tmp_path: Path) -> None:
    journal, flight = Journal(tmp_path / "journal.sqlite3"), Flight()
    first, second, another, settled = (
        document_of(1), document_of(2), document_of(4, statistic="another"), document_of(3, 2),
    )  # fmt: skip
    for document in (first, second, another, settled):
        flight.begin(document)
        document.move_at_work(Phase.PREPARING)
    assert flight.sums_of_others(journal, first) is None
    assert flight.sums_of_others(journal, first, np.array([5])) is None
    assert flight.sums_of_others(journal, second, np.array([7])) == [5]
    assert flight.sums_of_others(journal, first) == [7]
    assert flight.sums_of_others(journal, another) is None
    assert flight.sums_of_others(journal, settled, np.array([100])) == [10]  # the journal has its sums
    assert flight.sums_of_others(journal, first) == [7]
    flight.land(second)
    assert flight.sums_of_others(journal, first) is None
    journal.close()
