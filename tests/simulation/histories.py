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
FEW = 12  # histories that the default tests play for a variant; it is skipped if they do not find it out

# Histories that found variants out which most others miss, by variant or test. Changes of the simulation move
# seeds: an old one costs a history, then the search begins at 0. Renew it from what the test prints.
FOUND_BY = {
    "a loss is that of the first edition": 322,
    "the journal takes a document as settled whose recipe changed": 85,
    "an acceptance counts for what was listed before": 41,
    "test_a_batch_that_lands_only_after_all_others_is_found_out": 62,
    "unsure slots are trusted": 32,
    "an edition is deleted by a name that another one may have": 32,
    "a folder that can't be read counts as empty": 17,
    "statistics that moved disturb nobody": 24,
    "any collection of that name is believed": 13,
    "an unknown error withdraws a document": 7,
    "a stale preparation is written": 13,
    "of several hints one is listed": 7,
    "what was remembered of another state is believed": 4,
    "surplus slots are not dropped": 4,
    "reports take a document as settled whose recipe changed": 7,
    "names are believed after a crash": 2,
    "a collection is swapped before it is complete": 2,
    "options of an embedder do not count": 2,
    "an edition in building misses a listing": 2,
    "new shards get their names before old ones lose them": 15,
}


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


Seeds = Callable[[Iterable[int], int], list[int]]
FindOut = Callable[[Variant, Callable[[Iterable[int]], object]], None]


class NotFoundYet(Exception):
    """The few histories of the default tests did not find a variant out."""


def finding_out(
    cache: pytest.Cache | None, test: str, monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> FindOut:
    """Make the function by which a test has its histories find a variant out.

    ``few``: play at most ``FEW`` histories, then skip the test; the slow tests play ``MOST``. Histories are
    played from the first on. Two go before them: the one that found the variant out last time, whose seed is
    in pytest's cache, and the one of ``FOUND_BY``.
    """

    def find_out(variant: Variant, histories: Callable[[Iterable[int]], object]) -> None:
        owner, attribute, broken, laws = variant
        at = f"simulation/{text_digest(test)}"
        known = [] if cache is None else [cache.get(at, None)]
        known.append(FOUND_BY.get(test.partition("[")[2].rstrip("]") or test.rpartition("::")[2]))
        first = dict.fromkeys(seed for seed in known if seed is not None)
        monkeypatch.setattr(owner, attribute, broken, raising=attribute != "sorted")
        tried: list[int] = []
        try:
            with pytest.raises(LawBroken) as found:
                histories(_noted([*first, *range(MOST)], tried, FEW if few else MOST))
        except NotFoundYet:
            pytest.skip(f"not found out by {FEW} histories; `make test-all` plays {MOST}")
        print(f"found out by history {tried[-1]}, the {len(tried)}. of those tried: {found.value.law}")
        assert found.value.law in laws
        if cache is not None:
            cache.set(at, tried[-1])

    return find_out


def _noted(seeds: Iterable[int], tried: list[int], most: int) -> Iterator[int]:
    for seed in seeds:
        if len(tried) >= most and most == FEW:
            raise NotFoundYet
        tried.append(seed)
        yield seed
