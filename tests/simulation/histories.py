"""Histories of many seeds, and programs with one rule removed, which these must find out."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.simulation.laws import LawBroken
from tests.simulation.play import play
from tests.simulation.world import World

# Where a rule is, what is there instead, and the laws of which one finds that out.
Variant = tuple[Any, str, Any, set[str]]
Variants = Mapping[str, Variant]  # by what is removed


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
