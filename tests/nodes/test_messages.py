"""Messages keep values, arrays and errors."""

import numpy as np

from ingestor.nodes.messages import LogLine, WantedVectors, failure_of, pack, unpack
from ingestor.ports import BadDocument, Transient


def test_answers_return_as_they_were_sent() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(unpack(pack(vectors)), vectors)
    assert unpack(pack(WantedVectors(["a", "\ud800"]))) == WantedVectors(["a", "\ud800"])
    told = unpack(pack(failure_of(BadDocument("torn"), [LogLine(20, "x")])))
    assert isinstance(told.error, BadDocument)
    assert told.lines == [LogLine(20, "x")]
    foreign = type("Foreign", (Exception,), {})("of a plugin")
    assert str(failure_of(foreign).error) == "Foreign: of a plugin"
    later = failure_of(type("Busy", (Transient,), {})("come again")).error
    assert (type(later), str(later)) == (Transient, "come again"), "what follows is that of the known class"
