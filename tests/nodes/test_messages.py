"""The daemon builds values from what a node answers, and runs nothing."""

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingestor.nodes.messages import (
    FailedCall,
    LogLine,
    WantedVectors,
    array_of,
    failed_call,
    pack,
    unpack_answer,
)
from ingestor.pipeline.prepare import Tools
from ingestor.ports import BadDocument, Transient


class _Runs:
    def __init__(self, deed: Any, *arguments: Any) -> None:
        self._deed = deed, arguments

    def __reduce__(self) -> Any:
        return self._deed


def test_answer_that_would_run_code_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    deeds = [
        _Runs(os.mkdir, str(mark)),
        _Runs(eval, f"__import__('os').mkdir({str(mark)!r})"),
        _Runs(getattr, "a", "upper"),
        _Runs(partial, os.mkdir, str(mark)),
        _Runs(pickle.loads, pickle.dumps(_Runs(os.mkdir, str(mark)))),
        _Runs(np.load, str(mark)),
    ]
    for deed in deeds:
        for answer in (deed, WantedVectors([deed]), FailedCall(Exception, (deed,), {}, "")):  # type: ignore[list-item]
            with pytest.raises(Transient, match="no answer that can be read"):
                unpack_answer(pack(answer))
    assert not mark.exists()
    with pytest.raises(Transient):
        unpack_answer(b"rubbish")


class _Forged:
    """An array of bytes whose type says, against its flags, that they are pointers to objects."""

    def __reduce__(self) -> Any:
        return np.ndarray, ((1,), _ForgedType(), b"A" * 8)


class _ForgedType:
    def __reduce__(self) -> Any:
        return np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)


@pytest.mark.parametrize(
    "forged",
    [
        pickle.dumps(_Forged(), 5),
        pickle.dumps(np.array([{}], dtype=object), 5),
        pack(_Runs(array_of, "O", (1,), b"A" * 8)),
        pack(_Runs(array_of, "V8", (1,), b"A" * 8)),
        pack(_Runs(array_of, "<f4", (10**12,), b"A" * 8)),
        pack(_Runs(Tools)),
    ],
)
def test_answer_with_anything_but_numbers_in_an_array_is_refused(forged: bytes) -> None:
    """numpy's own pickles reach pointers: reading such an array ended the process."""
    with pytest.raises(Transient, match="no answer that can be read"):
        unpack_answer(forged)


@pytest.mark.parametrize("numbers", [np.float16, np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_arrays_and_numbers_come_back_as_they_were_sent(numbers: type) -> None:
    for sent in (np.arange(6).astype(numbers).reshape(2, 3).T, np.zeros((0, 3), numbers), numbers(1)):
        found = unpack_answer(pack(sent))
        assert (type(found), found.dtype, found.shape) == (type(sent), sent.dtype, sent.shape)
        assert np.array_equal(found, sent)
    assert unpack_answer(pack(np.ones(2, numbers))).flags.writeable


def test_answers_come_back_as_they_were_sent() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(unpack_answer(pack(vectors)), vectors)
    assert unpack_answer(pack(WantedVectors(["a", "\ud800"]))) == WantedVectors(["a", "\ud800"])
    told = unpack_answer(pack(failed_call(BadDocument("torn"), [LogLine(20, "x")])))
    assert isinstance(told.error(), BadDocument)
    assert told.lines == [LogLine(20, "x")]
    foreign = type("Foreign", (Exception,), {})("of a plugin")
    assert str(failed_call(foreign).error()) == "Foreign: of a plugin"
    later = failed_call(type("Busy", (Transient,), {})("come again")).error()
    assert (type(later), str(later)) == (Transient, "come again"), "what follows is that of the known class"
