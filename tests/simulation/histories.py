"""Histories of many seeds, and programs with one rule removed, which these must find out."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.laws import LawBroken
from tests.simulation.play import play
from tests.simulation.world import World

# By what is removed: where it is, what is there instead, and the laws of which one finds that out.
Variants = Mapping[str, tuple[Any, str, Any, set[str]]]
MOST = 300  # histories in which a variant must be found out


def no_settings(seed: int) -> Mapping[str, object]:
    return {}


def played(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = no_settings
) -> Iterator[World]:
    """Each world at the end of its history. ``settings``: of the history with that seed."""
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        yield play(place, seed, **settings(seed))
        if seed % 50 == 0:  # programs that died hold their files open, in cycles
            gc.collect()


def crashes(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = no_settings
) -> Counter[str]:
    return sum((world.chaos.crashes for world in played(folder, seeds, settings)), Counter[str]())


def find_out(
    variant: tuple[Any, str, Any, set[str]],
    histories: Callable[[Iterable[int]], object],
    begin: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, the histories are too tame to show that a rule is needed. ``begin``: the first seed."""
    owner, attribute, broken, laws = variant
    monkeypatch.setattr(owner, attribute, broken, raising=attribute != "sorted")
    with pytest.raises(LawBroken) as found:
        histories(range(begin, begin + MOST))
    assert found.value.law in laws
