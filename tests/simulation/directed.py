"""Histories without chance: each has the few deeds that show that a rule of the program is needed.

A changed engine moves the events of random histories to other seeds; here they stay where they are.
"""

import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path

from ingestor.engine import flight, writer
from ingestor.ports import Transient
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import History, within
from tests.simulation.laws import REST, hold
from tests.simulation.ports.chaos import Crash
from tests.simulation.ports.files import UNREADABLE, UNWRITABLE
from tests.simulation.world import DOCS, World


def begin(folder: Path, **settings: object) -> World:
    """Six documents are indexed, each of three records."""
    world = World(folder, 1, **settings)  # type: ignore[arg-type]
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}\nbeta {number}\ngamma {number}")
    world.settle()
    return world


def end(world: World) -> None:
    world.settle()
    end_at_rest(world)


def end_at_rest(world: World) -> None:
    hold(REST, not world.resting() and "there is work left")
    check(world)
    world.end()


def run(world: World, steps: int, seconds: float = 1.0) -> None:
    for _ in range(steps):
        world.now += seconds
        world.engine_step()
        world.check_readers()


def run_listing(world: World, steps: int, seconds: float = 1.0) -> None:
    world.engine.scanner.request_listing()
    run(world, steps, seconds)


def die(point: str, times: int = 1, mode: str = "in_place") -> History:
    """Make the history in which the process dies the n-th time that it comes to this point of a write."""

    def history(folder: Path) -> None:
        world = begin(folder, mode=mode)
        left = die_at(world, point, times)
        world.files.write("0.txt", "alpha 0\nan edit\nanother one\nthe last one")
        world.files.write("1.txt", "a short one")
        world.files.delete("2.txt")
        world.files.rename("3.txt", "renamed.txt")
        if mode == "swap":
            world.configure(per_chunk=2)
        world.engine.scanner.request_listing()
        for _ in range(12):
            world.step(5 if left else 0)
        end(world)

    return history


def die_at(world: World, point: str, times: int = 1) -> list[BaseException]:
    """Let the process die the n-th time that it comes to this point. Return a list that is empty then."""
    return _raise_at(world, "point", point, Crash(point), times)


def fail_at(world: World, point: str, times: int = 1, error: type[Exception] = Transient) -> None:
    """Let a port fail once, the n-th time that it is asked for this."""
    _raise_at(world, "fault", point, error(f"it fails once at {point}"), times)


def _raise_at(world: World, method: str, point: str, error: BaseException, times: int) -> list[BaseException]:
    left, usual = [error] * times, getattr(world.chaos, method)

    def at(name: str, share: float = 1.0) -> None:
        if name == point:
            left.pop()
            if not left:
                setattr(world.chaos, method, usual)
                raise error
        usual(name, share)

    setattr(world.chaos, method, at)
    return left


def change(mode: str) -> History:
    """Make the history in which the config changes again and again."""

    def history(folder: Path) -> None:
        world = begin(folder, mode=mode)
        for key, value in (("per_chunk", 2), ("profile", ("recipe",)), ("embedder", "sour"), ("parser", 2)):
            world.configure(**{key: value})
            run(world, 30)
            world.settle()
            check(world)
        end(world)

    return history


def hide_a_folder(folder: Path) -> None:
    """A folder cannot be read while a collection is built whose former parser is gone."""
    world = begin(folder, mode="swap")
    world.files.write("a/hidden.txt", "alpha")
    world.settle()
    world.files.see(hidden="a", disk="own")
    world.configure(parser=2)
    run(world, 60, 5.0)
    end(world)


def hint_at_two(folder: Path) -> None:
    """A watcher names two folders, which are listed together."""
    world = begin(folder, watched=True)
    for name in "abc":
        world.files.write(f"{name}/1.txt", "alpha")
    world.settle()
    for name in "abc":
        world.files.write(f"{name}/1.txt", "beta")
    run(world, 10)
    end(world)


def mount_another_disk(folder: Path) -> None:
    """Nothing is where the documents were, and then other documents are."""
    world = begin(folder)
    for disk in ("empty", "own", "other"):
        world.files.see(hidden=None, disk=disk)
        run(world, 20, 10.0)
    end(world)


def come_back(folder: Path) -> None:
    """A renamed document waits to be written when there is one of its former name again."""
    world = begin(folder)
    for number in range(6):
        name = f"{number}.txt"
        former = world.files.contents[name]
        world.files.rename(name, f"renamed {name}")
        _wait_until_prepared(world, f"renamed {name}")
        world.files.write(name, former)
        world.engine.scanner.request_listing()
        for _ in range(3):
            world.engine_step()
        run(world, 2)
    end(world)


def move_the_statistic(folder: Path) -> None:
    """Short lines come to a collection of long ones, and leave it again.

    They are listed first, so a run from nothing never sees the statistic of the long ones alone.
    """
    world = begin(folder, collective=True)
    for number in range(30):
        world.files.write(f"+{number}.txt", "x\nx\nx")
    world.settle()
    check(world)
    for number in range(30):
        world.files.delete(f"+{number}.txt")
    world.settle()
    world.answer()
    end(world)


def mount_another_disk_beside_a_rebuild(folder: Path) -> None:
    """What readers have has no documents left, and what is built has read none yet."""
    world = World(folder, 1, mode="swap")
    world.files.write("only.txt", "alpha")
    world.settle()
    world.configure(embedder="sour", parser=2)
    world.files.delete("only.txt")
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}")
    world.files.locked = set(world.files.contents)
    run(world, 8, 5.0)
    world.files.see(hidden=None, disk="empty")
    run(world, 10, 5.0)
    end(world)


def lose_the_collection(folder: Path) -> None:
    """Somebody deletes it while the program is stopped."""
    world = begin(folder)
    world.end()
    world.shelves.collections.clear()
    world.start()
    end(world)


def stream(folder: Path) -> None:
    """Each round another document changes, while others are prepared and wait to be written."""
    world = begin(folder)
    for number in range(40):
        world.files.write(f"new {number % 7}.txt", f"delta {number}\n" * (1 + number % 3))
        run_listing(world, 1, 0.3)
    end(world)


def change_what_waits(deed: Callable[[World, str], None], text: str = "an edit") -> History:
    """Make the history in which something happens to a document that is prepared and waits to be written."""

    def history(folder: Path) -> None:
        world = begin(folder)
        for number in range(6):
            name = f"{number}.txt"
            world.files.write(name, f"{text} {number}")
            _wait_until_prepared(world, name)
            deed(world, name)
            world.engine.scanner.request_listing()
            for _ in range(3):
                world.engine_step()
            run(world, 2)
        end(world)

    return history


def _wait_until_prepared(world: World, name: str) -> None:
    """Others are at work all the time, so it waits for them to fill a batch."""
    for number in range(20):
        world.files.write(f"other {number}.txt", f"omega {number} {name}")
        world.engine.scanner.request_listing()
        world.engine_step()
        if any(each.entry.key == name for each in world.engine.flight.documents() if each.prepared):
            world.files.write("other.txt", f"zeta {name}")
            return
    raise AssertionError(f"{name} is not prepared")


def edit(world: World, name: str) -> None:
    world.files.write(name, f"an edit after {name}")


def delete(world: World, name: str) -> None:
    world.files.delete(name)


def doubt(world: World, name: str) -> None:
    world.journal.doubt(Editions(world.journal).live(DOCS).name)


def rename_and_copy(folder: Path) -> None:
    """Two new documents of the same content are there, and the former one is gone."""
    world = begin(folder)
    world.files.write("copy.txt", world.files.contents["0.txt"])
    world.files.rename("0.txt", "renamed.txt")
    run_listing(world, 10)
    end(world)


def fail(error: type[Exception], rounds: int = 12) -> History:
    """Make the history in which a renamed and an edited document cannot be fetched for a while."""

    def history(folder: Path) -> None:
        world = begin(folder)
        world.files.rename("0.txt", "renamed.txt")
        world.files.write("1.txt", "an edit")
        fault = world.chaos.fault

        def failing(name: str, share: float = 1.0) -> None:
            if name == "fetch":
                raise error("it fails for a while")
            fault(name, share)

        world.chaos.fault = failing  # type: ignore[method-assign]
        run_listing(world, rounds, 15.0)
        world.chaos.fault = fault  # type: ignore[method-assign]
        end(world)

    return history


def fail_a_removal(folder: Path) -> None:
    """Chroma answers a removal with an error, and nothing else is written that would try it again."""
    world = begin(folder)
    world.files.delete("0.txt")
    fail_at(world, "after drop")
    end(world)


def delete_and_spoil(folder: Path) -> None:
    """Half of the documents vanish, and no parser takes the others while the removal is tried again."""
    world = begin(folder)
    for number in range(3):
        world.files.delete(f"{number}.txt")
        world.files.write(f"{number + 3}.txt", UNREADABLE)
    world.engine.scanner.request_listing()
    fail_at(world, "before drop")
    run(world, 10)
    end(world)


def write_beside_a_replaced_record(folder: Path) -> None:
    """A new document is written together with an edit: Chroma's graph leads to it from the record before."""
    world = begin(folder)
    world.files.write("0.txt", "an edit")
    world.files.write("new.txt", "beside the edit")
    end(world)


def refuse(folder: Path) -> None:
    """Chroma takes one of the documents no more, and the parser another one."""
    world = begin(folder)
    world.files.write("0.txt", f"alpha 0\n{UNWRITABLE}")
    world.files.write("1.txt", UNREADABLE)
    run_listing(world, 20)
    end(world)


@within(((flight, "BATCH", 2), (writer, "SLICE", 1)))
def fail_each_read(folder: Path) -> None:
    """Small and large documents change; each time two other reads of the journal fail in a row.

    Large documents are written in the same step as batches of small ones.
    """
    world = begin(folder, collective=True)  # their documents are begun with a read
    for number in range(30):  # all reads in the steps that list, prepare and write an edited document
        first = 2 * number + 2
        world.files.write("0.txt", f"an edit {first}")
        world.files.write("2.txt", f"alpha {first}" if number % 2 else UNWRITABLE)
        world.files.write("1.txt", "\n".join(f"line {number} of {first}" for number in range(4)))
        _fail_reads(world, first)
        run_listing(world, 4)
        world.settle()
    end(world)


def _fail_reads(world: World, first: int) -> None:
    reads = count(1)

    def unreadable() -> None:
        if world.chaos.reading and first <= next(reads) < first + 2:
            raise sqlite3.OperationalError("disk I/O error")

    world.chaos.unreadable = unreadable  # type: ignore[method-assign]


POINTS = [
    *(f"{when} {write}" for write in ("upsert", "drop", "patch") for when in ("before", "within", "after")),
    *(f"{when} {what}" for what in ("note", "lexical commit", "commit") for when in ("before", "after")),
    *("fetch", "embed", "keep"),
]
SWAPS = [f"{when} {what}" for what in ("rename", "delete") for when in ("before", "after")]
ALL: dict[str, History] = {
    **{f"die {point}": die(point) for point in POINTS},
    **{f"die {point}": die(point, mode="swap") for point in SWAPS},
    **{f"die {times}th after commit": die("after commit", times) for times in range(2, 9)},
    "change in place": change("in_place"),
    "change and swap": change("swap"),
    "hide a folder": hide_a_folder,
    "mount another disk": mount_another_disk,
    "mount another disk beside a rebuild": mount_another_disk_beside_a_rebuild,
    "come back": come_back,
    "move the statistic": move_the_statistic,
    "hint at two": hint_at_two,
    "lose the collection": lose_the_collection,
    "stream": stream,
    "edit what waits": change_what_waits(edit),
    "delete what waits": change_what_waits(delete),
    "doubt what waits": change_what_waits(doubt),
    "edit what is refused": change_what_waits(edit, UNWRITABLE),
    "edit what is unreadable": change_what_waits(edit, UNREADABLE),
    "rename and copy": rename_and_copy,
    "fail as known": fail(Transient),
    "fail as unknown": fail(RuntimeError),
    "fail a removal": fail_a_removal,
    "delete and spoil": delete_and_spoil,
    "refuse": refuse,
    "write beside a replaced record": write_beside_a_replaced_record,
    "fail each read": fail_each_read,
}
