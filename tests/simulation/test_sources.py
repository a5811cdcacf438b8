"""Histories with two sources in one collection: documents move between them, and one is renamed, leaves the
config and joins it again. They exchange their names while documents are read, and one of them may want other
credentials by then. People pause them, and ask for documents to be retried and written again.
"""

from functools import partial
from pathlib import Path

import pytest

from ingestor.engine.loop import Engine
from ingestor.state.journal import Journal
from tests.simulation.histories import Variants, crashes, find_out
from tests.simulation.laws import CLEAN, EXACT, HELD, REST


def two_sources(seed: int) -> dict[str, object]:
    return {"several": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24), two_sources).total() > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_so_do_a_thousand_more(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24, 1024), two_sources).total() > 4000


BROKEN: Variants = {
    "documents of a source that left stay": (
        Journal, "sources", lambda self: [], {EXACT, REST, CLEAN},
    ),
    "a failure counts for the source that has the name now": (
        Engine, "_handed_over", lambda self, entry: False, {HELD},
    ),
}  # fmt: skip

BEGINS = {"a failure counts for the source that has the name now": 18}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    histories = partial(crashes, tmp_path, settings=two_sources)
    find_out(BROKEN[name], histories, BEGINS.get(name, 0), monkeypatch)
