"""Messages keep values, arrays and errors."""

import numpy as np

from ingestor.nodes.messages import LogLine, WantedVectors, failed_call, pack, unpack
from ingestor.ports import BadDocument, Transient


def test_answers_come_back_as_they_were_sent() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(unpack(pack(vectors)), vectors)
    assert unpack(pack(WantedVectors(["a", "\ud800"]))) == WantedVectors(["a", "\ud800"])
    told = unpack(pack(failed_call(BadDocument("torn"), [LogLine(20, "x")])))
    assert isinstance(told.error, BadDocument)
    assert told.lines == [LogLine(20, "x")]
    foreign = type("Foreign", (Exception,), {})("of a plugin")
    assert str(failed_call(foreign).error) == "Foreign: of a plugin"
    later = failed_call(type("Busy", (Transient,), {})("come again")).error
    assert (type(later), str(later)) == (Transient, "come again"), "what follows is that of the known class"
