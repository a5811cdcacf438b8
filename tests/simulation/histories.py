"""Histories of many seeds; and programs with one rule removed, which directed histories must find out."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from ingestor.core import listings
from ingestor.engine import flight, writer
from ingestor.pipeline import listing
from ingestor.state import backlog, sources
from tests.simulation.laws import LawBroken
from tests.simulation.play import play
from tests.simulation.world import World

History = Callable[[Path], None]
# Where a rule is, what is there instead, the laws of which one finds that out, and the history that shows it.
Variant = tuple[Any, str, Any, set[str], History]
Variants = Mapping[str, Variant]  # by what is removed
Bounds = tuple[tuple[Any, str, Any], ...]  # what small worlds have instead

SLICES: Bounds = (  # a document of two records is large
    (flight, "BATCH", 1), (flight, "BACKGROUND_BATCH", 1), (writer, "SLICE", 1),
)  # fmt: skip
PAGES: Bounds = (  # of two items and keys, of a dozen
    (listings, "_PAGE", 2), (listing, "_PAGE", 2), (sources, "_PAGE", 2), (listings, "_KEYS", 2),
)  # fmt: skip
LONGEST = 300.0  # seconds that what vanished is kept for its heirs
SHORT_WAITS: Bounds = (
    (backlog, "AWAITED", backlog.AWAITED.replace(f"- {backlog.LONGEST}", f"- {LONGEST}")),
    (backlog, "LONGEST", LONGEST),
)


def played(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = lambda seed: {}
) -> Iterator[World]:
    """Yield each world at the end of its history. ``settings``: of the history with that seed."""
    for seed in seeds:
        place = Path(mkdtemp(prefix=f"{seed}-", dir=folder))
        yield play(place, seed, **settings(seed))
        if seed % 50 == 0:  # programs that died hold their files open, in cycles
            gc.collect()


def within(bounds: Bounds) -> Callable[[History], History]:
    """Decorate a history that is played with these bounds."""

    def decorate(history: History) -> History:
        @wraps(history)
        def bounded(folder: Path) -> None:
            with pytest.MonkeyPatch.context() as patch:
                for each in bounds:
                    patch.setattr(*each)
                history(folder)

        return bounded

    return decorate


def detect(variant: Variant, folder: Path) -> None:
    """Require that the variant's history finds it out, by a law that is named for it."""
    owner, attribute, broken, laws, history = variant
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, attribute, broken, raising=attribute != "sorted")
        with pytest.raises(LawBroken) as found:
            history(folder)
    assert found.value.law in laws, found.value
