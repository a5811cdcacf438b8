"""Listings, losses and failures: the rules as tables."""

import pytest

from ingestor.core.decisions import NEVER, Failure, Scope, after_failure, sudden_loss, too_many, withdrawal
from ingestor.core.errors import CAP, LONGEST
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient


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
def test_scope_covers_only_listed_keys(scope: Scope, key: str, covered: bool) -> None:
    assert scope.covers(key) is covered


@pytest.mark.parametrize(
    ("lost", "of", "max_loss", "asks"),
    [
        (0, 0, 0.0, False),
        (1, 1, 0.5, False),  # a single document is anybody's to delete
        (2, 2, 0.5, True),  # all of several
        (2, 3, 0.5, False),  # few, and not all
        (4, 5, 0.5, False),
        (5, 10, 0.5, False),  # half is allowed
        (5, 9, 0.5, True),
        (8, 12, 0.5, True),
        (5, 100, 0.0, True),
        (4, 100, 0.0, False),
        (100, 100, 1.0, False),  # max_loss: 1 never asks
    ],
)
def test_loss_needs_consent_from_its_share_on(lost: int, of: int, max_loss: float, asks: bool) -> None:
    assert too_many(lost, of, max_loss) is asks


@pytest.mark.parametrize(
    ("vanished", "appeared", "known", "before", "moved_root", "says"),
    [
        (0, 0, 100, None, False, None),
        (4, 0, 5, 5, False, None),
        (10, 0, 10, None, False, "10 of 10 documents vanished at once"),
        (50, 0, 100, 100, False, None),
        (51, 0, 100, 100, False, "51 of 100 documents vanished at once"),
        (100, 100, 100, 100, False, None),  # renamed
        (100, 60, 100, 100, False, None),
        (10, 0, 50, 100, False, "60 of 100 documents vanished within a day"),
        (10, 0, 60, 100, False, None),
        (0, 0, 30, 100, False, None),  # this listing lost nothing
        (10, 70, 50, 100, False, None),  # what appeared since is set off
        (2500, 0, 5000, 10000, False, "7,500 of 10,000 documents vanished within a day"),
        (60, 0, 100, 50, False, "60 of 100 documents vanished at once"),  # it grew since
        (1, 0, 100, 100, True, "1 of 100 documents vanished, and another file system is mounted"),
        (100, 100, 100, 100, True, "100 of 100 documents vanished, and another file system"),
        (0, 5, 100, 100, True, None),
    ],
)
def test_sudden_loss_needs_approval_above_max_loss(
    vanished: int, appeared: int, known: int, before: int | None, moved_root: bool, says: str | None
) -> None:
    found = sudden_loss(vanished, appeared, known, before, 0.5, moved_root)
    assert found is None if says is None else (found or "").startswith(says)


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
def test_quarantine_applies_to_bad_documents_only(
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
        (3, 9, False),  # few
        (1, 2, True),  # all
        (5, 10, True),
        (49, 100, False),
        (50, 100, True),
        (9, 1000, False),
    ],
)
def test_parser_that_fails_on_every_document_does_not_empty_the_index(
    withdrawn: int, indexed: int, kept: bool
) -> None:
    failure = Failure("no text", 1, NEVER, quarantined=True)
    reason = withdrawal(failure, withdrawn, indexed, 0.5)
    assert (reason is not None) is kept
    assert reason is None or "no text" in reason
