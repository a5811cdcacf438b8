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

# Where a rule is, what is there instead, the laws of which one finds that out, and the seed of a history that
# does: 0 if none is named.
Variant = tuple[Any, str, Any, set[str]] | tuple[Any, str, Any, set[str], int]
Variants = Mapping[str, Variant]  # by what is removed
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
    variant: Variant, histories: Callable[[Iterable[int]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the histories are too tame to show that a rule is needed.

    The histories that follow are played only if the variant's own no longer finds it out. ``pytest -s`` tells
    which one did: its seed belongs there then.
    """
    owner, attribute, broken, laws, *known = variant
    begin = known[0] if known else 0
    monkeypatch.setattr(owner, attribute, broken, raising=attribute != "sorted")
    tried: list[int] = []
    with pytest.raises(LawBroken) as found:
        histories(_noted(range(begin, begin + MOST), tried))
    print(f"found out by history {tried[-1]}, the {len(tried)}. of those tried: {found.value.law}")
    assert found.value.law in laws


def _noted(seeds: Iterable[int], tried: list[int]) -> Iterator[int]:
    for seed in seeds:
        tried.append(seed)
        yield seed
