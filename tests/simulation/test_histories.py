"""Random histories of every kind equal a run from nothing.

The default tests play those with rules that directed histories meet seldom.

Each history mixes edits, renames, copies, partial listings, other disks, known and unknown errors of every
port, changed recipes, broken parsers, wrong clocks, torn and vanished collections with deaths of the process
at every point of the write protocol. The other files of this folder have the same deeds without chance.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from tests.simulation.checks.at_rest import check
from tests.simulation.histories import PAGES, SHORT_WAITS, SLICES, Bounds, played
from tests.simulation.play import COMMON, MEDDLING, RARE, act, configure
from tests.simulation.test_collective import STRATEGIES, bounds_of
from tests.simulation.world import World


def swapped_often(folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping]) -> Iterator[World]:
    """Yield worlds in which the grace of an old collection may end while Chroma has the wrong names."""
    for seed in seeds:
        random, world = Random(seed), World(Path(mkdtemp(dir=folder)), seed, **settings(seed))
        for _ in range(10):
            act(world, random)
            configure(world, random, random.choice(["recipe", "reshard", "embedder", "roll_back"]))
            world.step(random.randrange(10, 30))
        world.settle()
        check(world)
        world.end()
        yield world


@dataclass(frozen=True)
class Kind:
    """Histories with settings by seed.

    They must have more deaths than ``least``, or more faults named ``counted``.
    """

    settings: Callable[[int], Mapping[str, object]]
    few: Sequence[int]  # seeds of the default tests
    least: int
    more: Sequence[int]  # further seeds of `make test-all`
    least_of_more: int
    bounds: Bounds = ()
    counted: str = ""
    play: Callable[..., Iterator[World]] = played

    def count(self, folder: Path, seeds: Iterable[int]) -> int:
        found = Counter[str]()
        with pytest.MonkeyPatch.context() as patch:
            for each in self.bounds:
                patch.setattr(*each)
            for world in self.play(folder, seeds, self.settings):
                found += world.chaos.crashes
                found += world.chaos.faults if self.counted else Counter()
        return found[self.counted] if self.counted else found.total()


KINDS = {
    # two collections with recipes of their own share the embedder; its server is away at times, and becomes
    # another one; people approve changes of the config, undo them, or do neither; readers ask all the time
    "boundaries": Kind(
        lambda seed: {
            "two": True, "several": seed % 2 == 0, "remote": seed % 4 < 2, "approves": seed % 3 == 0,
            "asking": True, "restless": seed % 5 == 0,
        },
        [0], 8, range(1, 1012), 10_000,
    ),
    # listings take a while, and fail at any of their items; of half of the sources a watcher misses nothing
    "listings": Kind(
        lambda seed: {
            "acts": 25, "rounds": 6, "stepwise": True, "watched": seed % 2 == 0, "remounted": seed % 4 * 5,
        },
        [0], 0, range(1, 1024), 900, PAGES, "within listing",
    ),
    # deaths are few: a new process has nothing in flight, so it heals what a failing step left behind
    "failing reads": Kind(
        lambda seed: {"read_rate": 0.04, "crash_rate": 0.01, "collective": seed % 2 == 0},
        (), 0, range(1016), 20_000, (), "journal read",
    ),
    # so many that one fails while another error is handled
    "failing reads of large documents": Kind(
        lambda seed: {"read_rate": 0.15, "crash_rate": 0.01}, (), 0, range(8), 100, SLICES, "journal read",
    ),
    "large documents": Kind(lambda seed: {}, (), 0, range(210, 230), 60, SLICES),
    "an edition that lacks a plugin": Kind(lambda seed: {}, (), 0, [340], -1),
    # the journal has the world's clock, and keeps what vanished for minutes, not for hours
    "long waits": Kind(lambda seed: {"dated": True}, (), 0, range(20, 1036), 4000, SHORT_WAITS),
    "losses of folders": Kind(lambda seed: {"dwindling": True}, (), 0, range(12), 4),
    "unreadable documents": Kind(lambda seed: {"spoiling": True}, (), 0, range(6), 18),
    "restores": Kind(lambda seed: {"restores": True}, (), 0, range(1012), 5000),
    "restores of shards": Kind(
        lambda seed: {"restores": True, "shards": 1 + seed % 3, "resharded": 4, "grace": seed % 5 * 50.0},
        [0], 0, range(1, 512), 2000,
    ),
    "shards": Kind(
        lambda seed: {"shards": 1 + seed % 3, "resharded": 4},
        [4], 2, [*range(4), *range(5, 20), *range(100, 400)], 600,
    ),
    # a source that left keeps its documents in half of them, until a person agrees
    "two sources": Kind(
        lambda seed: {"several": True, "prune": seed // 16 % 2 == 0}, (), 0, range(1024), 4000,
    ),
    "renamed sources of large documents": Kind(
        lambda seed: {"several": True, "sliced": True}, (), 0, range(1100, 1112), 10, SLICES,
    ),
    "outages": Kind(
        lambda seed: {
            "crash_rate": 0.01, "error_rate": 0.02, "mode": "swap", "outages": 0.1, "grace": 10.0,
        },
        [0], 10, range(1, 10), 10, (), "away", swapped_often,
    ),
    **{
        strategy: Kind(
            lambda seed: {"collective": True}, (), 0, range(60), 150, bounds_of(strategy),
        )
        for strategy in STRATEGIES
    },
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.few])
def test_history_equals_a_fresh_run(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    assert kind.count(tmp_path, kind.few) > kind.least


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KINDS)
def test_further_histories_equal_a_fresh_run(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    assert kind.count(tmp_path, kind.more) > kind.least_of_more


def test_histories_with_every_deed_equal_a_fresh_run(tmp_path: Path, few: bool) -> None:
    deaths, deeds = 0, Counter[str]()
    for world in played(tmp_path, (11, 25) if few else range(31)):
        deaths, deeds = deaths + world.chaos.crashes.total(), deeds + world.deeds
    assert deaths > 20
    assert few or not {*COMMON, *RARE, *MEDDLING} - deeds.keys()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_crashes_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total, start = Counter[str](), 26
    while total.total() < 20_000:
        for world in played(tmp_path, range(start, start + 100)):
            total += world.chaos.crashes
        start += 100
    with capsys.disabled():
        print(f"\n{total.total()} crashes in {start - 26} histories: {dict(total)}")
