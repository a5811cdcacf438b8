"""Listings, losses and failures: the rules as tables."""

import pytest

from ingestor.backoff import CAP, LONGEST
from ingestor.decide import (
    NEVER,
    Changes,
    Failure,
    Scope,
    after_failure,
    compare,
    sudden_loss,
    withdrawal,
)
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient


def items(**versions: str) -> list[Item]:
    return [Item(key, version, f"/{key}") for key, version in versions.items()]


def test_compare_tells_new_changed_and_vanished() -> None:
    found = compare({"a": "1", "b": "1", "c": "1"}, items(a="1", b="2", d="1"), Scope())
    assert [item.key for item in found.changed] == ["b", "d"]
    assert (found.vanished, found.appeared, found.listed) == (("c",), 1, 3)


@pytest.mark.parametrize(
    ("scope", "key", "covered"),
    [
        (Scope(), "a/b", True),
        (Scope(("a",)), "a", True),
        (Scope(("a",)), "a/b", True),
        (Scope(("a",)), "ab", False),  # a neighbour whose name only begins alike
        (Scope(("a", "b/c")), "b/c/d", True),
        (Scope(unknown=("a",)), "a/b", False),
        (Scope(unknown=("a",)), "b", True),
        (Scope(("a",), unknown=("a/x",)), "a/x/y", False),
    ],
)
def test_a_scope_speaks_only_of_what_it_listed(scope: Scope, key: str, covered: bool) -> None:
    assert scope.covers(key) is covered


@pytest.mark.parametrize(
    ("vanished", "appeared", "known", "moved_root", "held"),
    [
        (0, 0, 100, False, False),
        (9, 0, 9, False, False),  # few
        (10, 0, 10, False, True),
        (50, 0, 100, False, False),  # half is allowed
        (51, 0, 100, False, True),
        (100, 100, 100, False, False),  # renamed
        (100, 60, 100, False, False),
        (1, 0, 100, True, True),  # another file system is mounted there
        (0, 5, 100, True, False),
    ],
)
def test_sudden_loss(vanished: int, appeared: int, known: int, moved_root: bool, held: bool) -> None:
    changes = Changes(vanished=tuple(map(str, range(vanished))), appeared=appeared)
    assert (sudden_loss(changes, known, 0.5, moved_root) is not None) is held


@pytest.mark.parametrize(
    ("error", "attempts", "quarantined", "longest"),
    [
        (BadDocument("not text"), 0, True, NEVER),
        (Transient("later"), 1000, False, CAP),
        (Stale("changed"), 0, False, 1.0),
        (NeedsHuman("log in"), 1000, False, CAP),
        (RuntimeError("CUDA out of memory"), 0, False, 1.0),
        (RuntimeError("CUDA out of memory"), 5, False, 16.0),
        (RuntimeError("CUDA out of memory"), 1000, False, LONGEST),
    ],
)
def test_only_bad_documents_are_given_up(
    error: Exception, attempts: int, quarantined: bool, longest: float
) -> None:
    failure = after_failure(error, attempts, now=100.0, random=1.0, detail="trace")
    assert failure.quarantined is quarantined
    assert failure.retry_at == 100.0 + longest
    assert failure.attempts == attempts + 1
    assert (failure.detail == "trace") is isinstance(error, RuntimeError)


@pytest.mark.parametrize(
    ("withdrawn", "indexed", "kept"),
    [
        (8, 9, False),  # few
        (9, 10, True),
        (49, 100, False),
        (50, 100, True),
        (9, 1000, False),
    ],
)
def test_a_parser_that_reads_nothing_any_more_empties_no_index(
    withdrawn: int, indexed: int, kept: bool
) -> None:
    failure = Failure("no text", 1, NEVER, quarantined=True)
    reason = withdrawal(failure, withdrawn, indexed, 0.5)
    assert (reason is not None) is kept
    assert reason is None or "no text" in reason
