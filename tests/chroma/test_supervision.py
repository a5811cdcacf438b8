"""Supervision of our server: when a silence, a fault or a crash calls for a restart."""

import os
import time

import pytest

from ingestor.chroma.supervision import LONGEST, Observation, Supervision, is_stuck
from ingestor.confinement.python_child import processor_seconds
from ingestor.core.entries import ChromaName

SINCE = 1000.0
DOCS, CODE = ChromaName("docs"), ChromaName("code")


def up(at: float = SINCE) -> Supervision:
    """A server that answers since then."""
    machine = Supervision()
    machine.ready(Observation(at, 1.0, answers=True))
    return machine


@pytest.mark.parametrize(
    ("waited", "spent", "expected"),
    [
        (15.0, 0.0, True),
        (15.0, 0.2, True),
        (15.0, 0.4, False),  # on a crowded machine it gets little
        (15.0, 30.0, False),
        (LONGEST, 300.0, False),
        (LONGEST + 1, 300.0, True),
    ],
)
def test_silence_without_work_or_beyond_the_longest_is_stuck(
    waited: float, spent: float, expected: bool
) -> None:
    before, now = Observation(SINCE + waited - 15, 7.0), Observation(SINCE + waited, 7.0 + spent)
    assert is_stuck(SINCE, before, now) is expected


@pytest.mark.parametrize(("before", "now"), [(None, 7.0), (7.0, None), (None, None)])
def test_silence_without_known_work_is_stuck(before: float | None, now: float | None) -> None:
    assert is_stuck(SINCE, Observation(SINCE, before), Observation(SINCE + 15, now))


def test_heartbeats_without_answer_call_for_a_restart_if_the_server_does_not_work() -> None:
    machine = up()
    assert machine.judge(Observation(SINCE + 50, 1.0)) is None
    assert machine.judge(Observation(SINCE + 100, 40.0)) is None, "it works"
    assert machine.judge(Observation(SINCE + 120, 40.0, answers=True)) is None
    assert machine.judge(Observation(SINCE + 190, 40.0)) == "no answer for 70 s"
    assert machine.judge(Observation(SINCE + 195, 40.0, answers=True)) == "no answer for 70 s"


def test_fault_is_the_reason_until_the_next_start() -> None:
    machine = Supervision()
    assert machine.judge(Observation(SINCE)) == "not started"
    machine = up()
    for _ in range(2):
        assert machine.judge(Observation(SINCE + 1, fault="it ended by SIGKILL")) == "it ended by SIGKILL"
    machine.ready(Observation(SINCE + 2, 0.0, answers=True))
    assert machine.judge(Observation(SINCE + 3, 0.0, answers=True)) is None
    assert machine.starts == 2


def asked(machine: Supervision, name: ChromaName, start: float, end: float) -> bool:
    """Whether a request without an answer, over which the server works, calls for a restart."""
    reason = machine.note_silence(name, Observation(start, 0.0), Observation(end, 1000.0))
    if reason is not None:
        machine.why = None
    return reason is not None


def test_silence_of_a_collection_lasts_until_its_answer_or_a_long_pause() -> None:
    machine = up(0.0)
    assert not asked(machine, DOCS, 100, 115)
    assert not asked(machine, DOCS, 100 + LONGEST - 30, 100 + LONGEST - 15)
    assert not asked(machine, CODE, 100 + LONGEST, 115 + LONGEST), "each collection has its own"
    assert asked(machine, DOCS, 101 + LONGEST, 116 + LONGEST)
    del machine.silences[DOCS]
    assert not asked(machine, DOCS, 120 + LONGEST, 135 + LONGEST)
    assert not asked(machine, DOCS, 200 + 2 * LONGEST, 215 + 2 * LONGEST), "another silence"


def test_start_forgets_silences_and_loaded_collections() -> None:
    machine = up(0.0)
    machine.loaded.add("uuid")
    assert not asked(machine, DOCS, 100, 115)
    machine.ready(Observation(120, 0.0, answers=True))
    assert machine.loaded == set()
    assert not asked(machine, DOCS, 101 + LONGEST, 116 + LONGEST)


def test_processor_seconds_grow_with_work_and_are_unknown_without_process() -> None:
    before, until = processor_seconds(os.getpid()), time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = processor_seconds(os.getpid())
    assert before is not None
    assert after is not None
    assert after >= before + 0.08
    assert processor_seconds(2**22 + 1) is None
