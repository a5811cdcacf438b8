"""Taps and sources that mean harm, or are broken: nothing is listed, soon, within bounds of memory."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.programs import child, records
from ingestor.connectors.programs.child import Run
from ingestor.ports import NeedsHuman, Transient
from tests.bounded import printed
from tests.connectors.laws import listed
from tests.connectors.programs.test_taps import is_gone
from tests.connectors.taps import made

# The program gets what it says when it discovers, and when it reads, as Python.
PROGRAM = """
import itertools, json, os, signal, sys, time
DISCOVERS = any("discover" in word for word in sys.argv)
FIELDS = {"id": {"type": "string"}, "x": {}}
def say(**message):
    print(json.dumps(message))
def catalog():
    say(type="CATALOG", streams=[STREAM], catalog={"streams": [STREAM]})
def schema():
    say(type="SCHEMA", stream="a", schema={"properties": FIELDS}, key_properties=["id"])
def record(key, **more):
    say(type="RECORD", stream="a", record={"id": key, "data": {"id": key, **more}, "stream": "a", **more})
STREAM = {"tap_stream_id": "a", "stream": "a", "name": "a", "json_schema": {"properties": FIELDS},
          "schema": {"properties": FIELDS}, "source_defined_primary_key": [["id"]]}
"""
KINDS = ("singer", "airbyte")


def program(
    kind: str, folder: Path, discover: str = "catalog()", read: str = "schema(); record('1')", **more: Any
) -> Any:
    script = folder / "program.py"
    script.write_text(PROGRAM + f"if DISCOVERS:\n    {discover}\nelse:\n    {read}\n")
    given = {
        "command": [sys.executable, "-I", "-S", str(script)],
        "streams": ["a"],
        "text": "{id} {x}",
        **more,
    }
    return made(kind, given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_one(kind: str, tmp_path: Path) -> None:
    assert listed(program(kind, tmp_path)).keys() == {"a/1"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("discover", "read", "message"),
    [
        ("while True: say(type='STATE', value='x' * 10_000)", "", "more than 100,000,000 bytes"),
        ("while True: sys.stdout.write('x' * 65_536)", "", "a line of what it prints has more than"),
        ("catalog()", "while True: sys.stdout.write('x' * 65_536)", "a line of what it prints has more"),
        ("catalog()", "schema()\n    while True: time.sleep(9)", "longer than `timeout`"),
        ("catalog()", "schema()\n    while True: sys.stderr.write('x' * 9999)", "longer than `timeout`"),
        ("catalog()", "schema()\n    os.close(1); time.sleep(99)", "closed its output but did not exit"),
        ("catalog()", "schema()\n    for n in itertools.count(): record(str(n))", "than 1,000 records"),
        ("catalog()", "print('{\"type\": ' + '[' * 500_000)", "not a whole message"),
        ("catalog()", "print('{\"type\": \"STATE\", \"a\": ' + '9' * 500_000 + '}')", "not a whole message"),
        ("catalog()", "os.write(1, b'{\"type\": \"RECORD\", \\xff\\x00}\\n')", "not a whole message"),
        ("catalog()", "os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("catalog()", "signal.signal(15, signal.SIG_IGN)\n    time.sleep(99)", "longer than `timeout`"),
    ],
    ids=[
        "endless catalog", "endless line of a catalog", "endless line", "silence", "endless errors", "no end",
        "endless records", "deep", "number", "binary", "crash", "deaf",
    ],
)  # fmt: skip
def test_what_goes_on_for_ever_or_is_nonsense(
    kind: str, discover: str, read: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_RECORDS", 1000)
    monkeypatch.setattr(child, "_GRACE", 0.5)
    more = {"timeout": "1s" if "longer than" in message else "60s", "max_size": 10_000}
    begun = time.monotonic()
    with pytest.raises(Transient, match=message):
        next(program(kind, tmp_path, discover, read or "pass", **more).scan())
    assert time.monotonic() - begun < 60


ODD: list[Any] = [1, "a", None, [], {}, [1], {"a": 1}, [[]], [None], True, 1.5, [{"name": 1}]]
PLACES = (
    "streams", "catalog", "schema", "json_schema", "key_properties", "source_defined_primary_key",
    "metadata", "stream", "name", "record", "data", "properties", "supported_sync_modes", "log", "trace",
)  # fmt: skip
SOUND = "catalog()\nelse:\n    schema(); record('1')\n"


def _changed(message: Any, name: str, odd: Any) -> Any:
    """The message with this value wherever the name stands."""
    if isinstance(message, dict):
        return {key: odd if key == name else _changed(value, name, odd) for key, value in message.items()}
    return [_changed(one, name, odd) for one in message] if isinstance(message, list) else message


def _messages(words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the sound program says when it is called with these words."""
    said: list[Any] = []
    monkeypatch.setattr(sys, "argv", words)
    exec(f"{PROGRAM}\ndef say(**message): said.append(message)\nif DISCOVERS: {SOUND}", {"said": said})
    return [{"log": {}, "trace": {}, **message} for message in said]


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_anywhere_is_read_or_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is played in this process: 360 of its own would show the same."""
    read = Counter[str]()
    for name, odd in product(PLACES, ODD):

        def lines(run: Run, given: bytes = b"", name: str = name, odd: Any = odd) -> Iterator[bytes]:
            for message in _messages([str(word) for word in run.command], monkeypatch):
                yield json.dumps(_changed(message, name, odd)).encode()

        with monkeypatch.context() as patched:
            patched.setattr(Run, "lines", lines)
            with suppress(NeedsHuman, Transient):
                read[name] += len(list(program(kind, tmp_path).scan()))
    assert read["log"] == read["trace"] > 0, "nothing was read at all"


@pytest.mark.parametrize("kind", KINDS)
def test_what_records_hold_goes_nowhere_else(kind: str, tmp_path: Path) -> None:
    read = r"""schema()
    for key in ("../../up", "/etc/passwd", "a\0b", "\ud800", "\x1b[2J", "x" * 10_000, "."):
        record(key, x={"deep": [[[[1]]]]})"""
    connector = program(kind, tmp_path, read=read, file_name="{id}")
    items = listed(connector)
    assert len(items) == 7
    for item in items.values():
        item.key.encode()
        blob = connector.fetch(item)
        assert "/" not in blob.name
        assert "\0" not in blob.name
        assert b"deep" in blob.data
        assert b"\0" not in blob.data.replace(b"a\0b", b"")
    assert {path.name for path in tmp_path.iterdir()} == {"program.py"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_of_ten_thousand_fields(kind: str, tmp_path: Path) -> None:
    fields = "FIELDS.update((f'f{n}', {'anyOf': [{}] * 9}) for n in range(10_000))\nif not DISCOVERS:"
    connector = program(kind, tmp_path)
    script = tmp_path / "program.py"
    script.write_text(script.read_text().replace("if DISCOVERS:", f"{fields}\n    pass\nif DISCOVERS:"))
    begun = time.process_time()
    assert listed(connector).keys() == {"a/1"}
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("kind", KINDS)
def test_children_are_ended_with_it(kind: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    read = f"""schema(); sys.stdout.flush()
    for _ in range(50):
        if os.fork() == 0:
            signal.signal(15, signal.SIG_IGN)
            os.write(os.open({str(pid)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"%d " % os.getpid())
            time.sleep(600)
    while not (os.path.exists({str(pid)!r}) and os.path.getsize({str(pid)!r})): time.sleep(0.01)
    record("1")"""
    assert listed(program(kind, tmp_path, read=read)).keys() == {"a/1"}
    assert is_gone(pid)


@pytest.mark.slow
def test_a_line_of_a_gigabyte_takes_a_third_of_it() -> None:
    """In a process of its own, with a limit of memory."""
    assert os.sep == "/"
    text = """
        import resource, tempfile
        from pathlib import Path
        from ingestor.ports import Transient
        from tests.connectors.programs.test_hostile_programs import program
        read = "schema()\\n    for _ in range(16_000): sys.stdout.write('x' * 65_536)"
        try:
            list(program("singer", Path(tempfile.mkdtemp()), read=read).scan())
        except Transient as error:
            print("more than 301,000,000 bytes" in str(error))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_000_000)
        """
    assert printed(text, seconds=120).split() == ["True", "True"]
