"""Documents whose cuts depend on their whole collection are written as they are read, and cut again once."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ingestor.pipeline.prepare import Job, Prepared, prepare
from tests.engine.worlds import end, settled_world, with_records, world_of
from tests.simulation.checks.at_rest import check
from tests.simulation.ports.workers import Paced
from tests.simulation.world import World
from tests.state.journals import of_collection


def prepared_by(world: World) -> list[Job]:
    """The jobs that the engine has prepared from now on."""
    jobs, preparing = list[Job](), world.engine.preparing

    def noting(job: Job, *rest: Any) -> Prepared:
        jobs.append(job)
        return preparing(job, *rest)

    world.engine.preparing = noting
    return jobs


@pytest.mark.parametrize("pace", [1, pytest.param(7, marks=pytest.mark.slow), 40])
def test_first_pass_writes_less_than_a_third_of_its_records_twice(tmp_path: Path, pace: int) -> None:
    """However many documents are prepared at the same time: each is cut for all that were read before."""
    random, files = Random(1), dict[str, str]()
    for number in range(60):  # with lines of other lengths each: every document moves the statistic
        length = random.randrange(3, 14)
        files[f"{number:02}"] = "\n".join(f"{n} ".ljust(length, "x") for n in range(random.randrange(2, 9)))
    world = world_of(tmp_path, files, collective=True)
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, pace)
    jobs = prepared_by(world)
    while not (world.engine.is_resting() and with_records(world)):
        world.now += 1.0
        pool.begin_round()
        world.engine_step()
    tally, [feed] = world.engine.writer.counts.tally(), world.engine.sources
    there = sum(len(entry.records) for entry in of_collection(world.journal, feed.edition))
    written = tally["records_added"] + tally["records_replaced"] + tally["records_patched"]
    times = Counter(job.entry.key for job in jobs)
    check(world)
    world.end()
    assert there > 150
    assert there < written <= 1.3 * there
    assert (tally["added"], tally["changed"], tally["recut"]) == (60, 0, len(jobs) - 60)
    assert max(times.values()) == 2, "once as they are read, and once when the statistic is settled"
    assert all(job.entry.state == "settled" for job in jobs[60:]), "after all were read"


def drifting(folder: Path) -> World:
    """Return a world in which a long document makes the others be cut again."""
    files = {f"{number:02}": "\n".join(["xx"] * 5) for number in range(30)}
    world = settled_world(folder, files, collective=True, ahead=40)
    world.files.write("long", "\n".join(["x" * 100] * 90))
    return world


def test_documents_to_cut_again_are_begun_together(tmp_path: Path) -> None:
    world, most = drifting(tmp_path), 0
    jobs = prepared_by(world)
    world.engine.scanner.request_listing()
    for _ in range(12):
        world.now += 1.0
        world.engine_step()
        most = max(most, len(world.engine.flight.documents()))
    assert (len(jobs), most) == (31, 30)
    end(world)


def test_new_document_among_drifted_ones_goes_first(tmp_path: Path) -> None:
    world, rounds = drifting(tmp_path), 0
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, 1)

    def step() -> None:
        world.now += 1.0
        pool.begin_round()
        world.engine_step()

    world.engine.scanner.request_listing()
    while len(world.engine.flight.documents()) < 20:
        step()
    world.files.write("new", "yy")
    world.engine.scanner.request_listing()
    while "new" not in with_records(world):
        rounds += 1
        step()
    assert rounds < 6 < len(world.engine.flight.documents())
    world.end()


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
    world = world_of(tmp_path, {"a": "\n".join(["xx"] * 8)}, collective=True)
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
