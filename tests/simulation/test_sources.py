"""Histories with two sources in one collection: documents move between them, and one is renamed, leaves the
config and joins it again. People pause them, and ask for documents to be retried and written again.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ingestor.state.journal import Journal
from tests.simulation.laws import CLEAN, EXACT, REST, LawBroken
from tests.simulation.play import play


def crashes(folder: Path, seeds: Iterable[int]) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        total += play(place, seed, several=True).chaos.crashes
    return total


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24)).total() > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_do_a_thousand_more(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24, 1024)).total() > 4000


# What is removed, the laws of which one finds that out, and where the search for such a history begins.
BROKEN: dict[str, tuple[Any, str, Any, set[str]]] = {
    "documents of a source that left stay": (
        Journal, "sources", lambda self: [], {EXACT, REST, CLEAN},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, broken, laws = BROKEN[name]
    monkeypatch.setattr(owner, attribute, broken)
    with pytest.raises(LawBroken) as found:
        crashes(tmp_path, range(300))
    assert found.value.law in laws
