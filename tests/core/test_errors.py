"""Errors in words, and the waits after them."""

import errno
import os

import pytest

from ingestor.core.errors import CAP, delay, describe


def test_description_of_an_error_has_no_number() -> None:
    for number in errno.errorcode:
        words = describe(OSError(number, os.strerror(number), "/some/file"))
        assert words and "Errno" not in words, number


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "", "/a"), "/a does not exist: create it, or correct the path"),
        (PermissionError(errno.EACCES, "", b"/a"), "permission denied for /a: "),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk has no room for a file: free"),
        (OSError(errno.EPIPE, "Broken pipe", "/a"), "/a: Broken pipe"),
        (OSError("timed out"), "timed out"),
        (ValueError(), "ValueError"),
    ],
)
def test_description_of_an_error_names_cause_place_and_remedy(error: Exception, words: str) -> None:
    assert describe(error).startswith(words)


@pytest.mark.parametrize(
    ("attempt", "random", "seconds"),
    [
        (1, 0.0, 0.0),
        (1, 1.0, 1.0),
        (1, 0.25, 0.25),
        (2, 1.0, 2.0),
        (3, 1.0, 4.0),
        (3, 0.5, 2.0),
        (9, 1.0, 256.0),
        (10, 1.0, CAP),
        (11, 1.0, CAP),
        (10**9, 0.5, CAP / 2),
        (0, 1.0, 1.0),
    ],
)
def test_delay_of_an_attempt_doubles_up_to_its_cap(attempt: int, random: float, seconds: float) -> None:
    assert delay(attempt, random) == seconds
