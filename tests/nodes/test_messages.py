"""The daemon builds values from what a node answers, and runs nothing."""

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingestor.nodes.messages import FailedCall, LogLine, WantedVectors, failed, pack, unpack_answer
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


def test_answers_come_back_as_they_were_sent() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(unpack_answer(pack(vectors)), vectors)
    assert unpack_answer(pack(WantedVectors(["a", "\ud800"]))) == WantedVectors(["a", "\ud800"])
    told = unpack_answer(pack(failed(BadDocument("torn"), [LogLine(20, "x")])))
    assert isinstance(told.error(), BadDocument)
    assert told.lines == [LogLine(20, "x")]
    foreign = type("Foreign", (Exception,), {})("of a plugin")
    assert str(failed(foreign).error()) == "Foreign: of a plugin"
    later = failed(type("Busy", (Transient,), {})("come again")).error()
    assert (type(later), str(later)) == (Transient, "come again"), "what follows is that of the known class"
