"""Errors of the system in words."""

import errno
import os

import pytest

from ingestor.core.error_text import describe


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_no_error_is_told_by_its_number(number: int) -> None:
    said = describe(OSError(number, os.strerror(number), "/some/file"))
    assert "Errno" not in said
    assert said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "", "/a"), "/a is not there: make it, or correct the path"),
        (PermissionError(errno.EACCES, "", b"/a"), "this user may not use /a: "),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk of a file is full: make room"),
        (OSError(errno.EPIPE, "Broken pipe", "/a"), "/a: Broken pipe"),
        (OSError("timed out"), "timed out"),
        (ValueError(), "ValueError"),
    ],
)
def test_description_of_an_error_names_cause_place_and_remedy(error: Exception, words: str) -> None:
    assert describe(error).startswith(words)
