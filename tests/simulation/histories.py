"""Histories of many seeds, and programs with one rule removed, which these must find out."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from ingestor.core.fingerprint import text_digest
from tests.simulation.laws import LawBroken
from tests.simulation.play import play
from tests.simulation.world import World

# Where a rule is, what is there instead, and the laws of which one finds that out.
Variant = tuple[Any, str, Any, set[str]]
Variants = Mapping[str, Variant]  # by what is removed
MOST = 300  # histories in which a variant must be found out


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


FindOut = Callable[[Variant, Callable[[Iterable[int]], object]], None]


def finding_out(cache: pytest.Cache, test: str, monkeypatch: pytest.MonkeyPatch) -> FindOut:
    """The function by which a test has its histories find a variant out.

    Histories are played from the first on, but the one that found the variant out last time goes before them.
    Its seed is kept in pytest's cache, not in the source: every change of the simulation moves it.
    """

    def find_out(variant: Variant, histories: Callable[[Iterable[int]], object]) -> None:
        owner, attribute, broken, laws = variant
        at = f"simulation/{text_digest(test)}"
        known = cache.get(at, None)
        monkeypatch.setattr(owner, attribute, broken, raising=attribute != "sorted")
        tried: list[int] = []
        with pytest.raises(LawBroken) as found:
            histories(_noted([*([] if known is None else [known]), *range(MOST)], tried))
        cache.set(at, tried[-1])
        print(f"found out by history {tried[-1]}, the {len(tried)}. of those tried: {found.value.law}")
        assert found.value.law in laws

    return find_out


def _noted(seeds: Iterable[int], tried: list[int]) -> Iterator[int]:
    for seed in seeds:
        tried.append(seed)
        yield seed
