"""Histories of many seeds, and programs with one rule removed, which these must find out."""

import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.simulation.laws import ALIVE, LawBroken
from tests.simulation.play import play
from tests.simulation.world import World

# Where a rule is, what is there instead, and the laws of which one finds that out.
Variant = tuple[Any, str, Any, set[str]]
Variants = Mapping[str, Variant]  # by what is removed
MOST = 300  # histories in which a variant must be found out
FEW = 3  # histories that the default tests play for a variant; it is skipped if they do not find it out

# The history that found each variant out, if the first did not. A change of the simulation moves them: the
# default tests then play three histories and skip the variant. `make test-all` notes others.
SEEDS = Path(__file__).with_name("seeds.json")


def no_settings(seed: int) -> Mapping[str, object]:
    return {}


def played(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = no_settings
) -> Iterator[World]:
    """Each world at the end of its history. ``settings``: of the history with that seed."""
    for seed in seeds:
        place = Path(mkdtemp(prefix=f"{seed}-", dir=folder))
        yield play(place, seed, **settings(seed))
        if seed % 50 == 0:  # programs that died hold their files open, in cycles
            gc.collect()


def crashes(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = no_settings
) -> Counter[str]:
    return sum((world.chaos.crashes for world in played(folder, seeds, settings)), Counter[str]())


def show(variant: Variant, history: Callable[[Path], None], folder: Path) -> None:
    """Require that a history without chance finds a broken variant out, by a law that is named for it."""
    owner, attribute, broken, laws = variant
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, attribute, broken, raising=attribute != "sorted")
        with pytest.raises(LawBroken) as found:
            history(folder)
    assert found.value.law in laws, found.value


Seeds = Callable[[Iterable[int], int], list[int]]
FindOut = Callable[[Variant, Callable[[Iterable[int]], object]], None]


class NotFoundYet(Exception):
    """The few histories of the default tests did not find a variant out."""


def finding_out(test: str, monkeypatch: pytest.MonkeyPatch, *, few: bool) -> FindOut:
    """Make the function by which a test has its histories find a variant out.

    The history in ``SEEDS`` goes first, then all from 0 on. ``few``: play ``FEW`` of them at most, then skip
    the test. The slow tests play ``MOST``, and note the one that found the variant out. A history that breaks
    another law first does not count; an error of the program itself shows that the variant does not fit it.
    """

    def find_out(variant: Variant, histories: Callable[[Iterable[int]], object]) -> None:
        owner, attribute, broken, laws = variant
        known = json.loads(SEEDS.read_text()).get(test)
        monkeypatch.setattr(owner, attribute, broken, raising=attribute != "sorted")
        tried: list[int] = []
        first = [known] if known is not None else []
        seeds, law = _noted([*first, *range(MOST)], tried, FEW if few else MOST), ""
        while law not in laws:
            try:
                histories(seeds)
            except NotFoundYet:
                pytest.skip(f"not found out by {FEW} histories; `make test-all` plays {MOST}")
            except LawBroken as found:
                law = found.law
                if law == ALIVE and law not in laws:
                    raise
            else:
                pytest.fail(f"not found out by {MOST} histories; the last law that one broke: {law}")
        print(f"found out by history {tried[-1]}, the {len(tried)}. of those tried: {law}")
        if not few and len(tried) > 1:
            _note(test, tried[-1])

    return find_out


def _note(test: str, seed: int) -> None:
    """Write the seed of a test down; other processes do the same."""
    with SEEDS.open("r+") as file:
        flock(file, LOCK_EX)
        seeds = {**json.load(file), test: seed}
        file.seek(0)
        file.truncate()
        json.dump(dict(sorted(seeds.items())), file, indent=0)
        file.write("\n")


def _noted(seeds: Iterable[int], tried: list[int], most: int) -> Iterator[int]:
    for seed in seeds:
        if len(tried) >= most and most == FEW:
            raise NotFoundYet
        tried.append(seed)
        yield seed
