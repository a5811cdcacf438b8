"""Documents wait for a process, slow ones give way, and nothing holds up the end."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import local

import pytest

from ingestor.core.errors import Slow, Stopped
from ingestor.model import Blob
from ingestor.ports import BadDocument, Transient
from ingestor.registry import Options
from ingestor.sandbox import process as sandbox_process
from ingestor.sandbox import wire
from ingestor.sandbox.pool import Defect, Isolation
from ingestor.sandbox.process import Limits
from tests.waiting import LONG, wait

pytestmark = pytest.mark.usefixtures("bad_parser")


PARSER = ("bad", Options())


def test_documents_wait_for_their_turn() -> None:
    isolation = Isolation(Limits(processes=2))
    with ThreadPoolExecutor(8) as threads:
        blobs = [Blob(b"pid", f"{n}") for n in range(40)]
        found = list(threads.map(lambda blob: isolation.parse(*PARSER, blob), blobs))
    isolation.close()
    assert len({document.text for document in found}) <= 2
    assert [dict(document.extra)["name"] for document in found] == [blob.name for blob in blobs]


@pytest.mark.slow
def test_slow_document_gets_its_full_time_at_the_second_attempt() -> None:
    isolation = Isolation(Limits(seconds=2, processes=1))
    isolation.take_turns()
    with pytest.raises(Slow, match="more than 1 s"):
        isolation.parse(*PARSER, Blob(b"hang", "a"))
    with pytest.raises(BadDocument, match="took more than 2 s"):
        isolation.parse(*PARSER, Blob(b"hang", "a"))
    isolation.close()


def test_slow_documents_leave_a_process_to_others() -> None:
    isolation = Isolation(Limits(seconds=30, processes=1))
    isolation.take_turns()
    isolation._first = 0.1
    slow = Blob(b"sleep", "a")
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(Slow):
            isolation.parse(*PARSER, slow)
        running = threads.submit(isolation.parse, *PARSER, slow)
        wait(lambda: isolation._free.qsize() == 1)
        isolation._first = 30.0
        assert isolation.parse(*PARSER, Blob(b"the next one", "c")).text == "the next one"
        assert not running.done()
        isolation.close()
        with pytest.raises(Stopped):
            running.result(30)


def test_waiting_for_a_process_counts_as_rest() -> None:
    isolation, resting = Isolation(Limits(seconds=1000, processes=1)), list[str]()

    @contextmanager
    def rests() -> Iterator[None]:
        resting.append("begun")
        yield
        resting.append("ended")

    isolation.take_turns(rests)
    assert isolation.parse(*PARSER, Blob(b"quick", "a")).text == "quick"
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(isolation.parse, *PARSER, Blob(b"sleep", "b"))
        wait(lambda: isolation._free.qsize() == 1)
        assert resting == []
        waiting = threads.submit(isolation.parse, *PARSER, Blob(b"next", "c"))
        wait(lambda: resting == ["begun"])
        isolation.close()
        for stopped in (running, waiting):
            with pytest.raises(Stopped):
                stopped.result(30)
    assert resting == ["begun", "ended"]


def test_documents_of_a_rebuild_wait_for_all_others_and_leave_a_process_to_them() -> None:
    """One of the rebuild is read, and another waits; an edit that comes last is read next."""
    isolation, doing = Isolation(Limits(seconds=1000, processes=2)), local()
    order, waiting = list[str](), list[str]()

    @contextmanager
    def rests() -> Iterator[None]:
        waiting.append(doing.name)
        yield

    isolation.take_turns(rests, lambda: doing.name.startswith("rebuilt"))

    def parse(name: str, deed: bytes) -> None:
        doing.name = name
        isolation.parse(*PARSER, Blob(deed, name))
        order.append(name)

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(parse, "rebuilt 1", b"sleep")]
        wait(lambda: isolation._free.qsize() == 2 and len(isolation._running) == 1)
        (slow,) = isolation._running
        following = threads.submit(parse, "rebuilt 2", b"quick")
        wait(lambda: waiting == ["rebuilt 2"])
        threads.submit(parse, "edit 1", b"quick").result(30)
        running.append(threads.submit(parse, "edit 2", b"sleep"))
        wait(lambda: isolation._free.qsize() == 1)
        edited = threads.submit(parse, "edit 3", b"quick")
        wait(lambda: waiting == ["rebuilt 2", "edit 3"])
        os.kill(slow._child.pid, signal.SIGKILL)  # of rebuilt 1
        edited.result(30)
        following.result(30)
        isolation.close()
        for each in running:
            with pytest.raises((Stopped, BadDocument, Defect)):
                each.result(30)
    assert order == ["edit 1", "edit 3", "rebuilt 2"]


@pytest.mark.parametrize("deed", [b"drip", b"sleep"])
def test_end_outruns_processes(deed: bytes) -> None:
    """Whatever it does, and although nobody has taken back what it was asked."""
    isolation = Isolation(Limits(seconds=1000, processes=1))
    pid = int(isolation.parse(*PARSER, Blob(b"pid", "a")).text)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(isolation.parse, *PARSER, Blob(deed, "a"))
        wait(lambda: isolation._free.qsize() == 1)
        (process,) = isolation._running
        wait(lambda: process._deadline - process._begun >= 4 * 1000)  # others may have had the processor
        isolation.stop()
        with pytest.raises(Stopped):
            running.result(LONG)  # and not after the 1,000 s of the limit
    isolation.close()
    assert process._child.returncode is not None
    assert not isolation._running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


STARVED = r"got only 0\.6 of 1 s of processor time: the machine is too busy"


@pytest.mark.parametrize(
    ("deed", "spent", "kind", "message"),
    [
        (b"drip", None, BadDocument, "took more than 1 s"),
        (b"sleep", None, BadDocument, "took more than 1 s"),
        (b"sleep", 0.04, Transient, STARVED),
    ],
)
def test_document_that_misses_its_deadline_is_refused_or_lacked_cpu_time(
    deed: bytes, spent: float | None, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a busy machine. ``spent``: processor seconds by each deadline."""
    monkeypatch.setattr(sandbox_process, "PATIENCE", 0.1)
    monkeypatch.setattr(wire, "TICK", 0.05)
    if spent is not None:
        clock = count(5.0, spent)
        monkeypatch.setattr(sandbox_process, "processor_seconds", lambda pid: next(clock))
    isolation = Isolation(Limits(seconds=1, processes=1))
    with pytest.raises(kind, match=message):
        isolation.parse(*PARSER, Blob(deed, "a"))
    isolation.close()
