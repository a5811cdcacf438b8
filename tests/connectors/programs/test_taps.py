"""What Singer's taps and Airbyte's sources have in common: the laws, and all that may go wrong."""

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ingestor.connectors.programs.airbyte import AirbyteOptions
from ingestor.connectors.programs.record import Stream, StreamRecord, document, field, shown
from ingestor.connectors.programs.records import Program, with_secrets
from ingestor.connectors.programs.singer import SingerOptions
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.taps import TAP, TapWorld, made, options_of

KINDS = ("singer", "airbyte")


class TestSinger(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> TapWorld:
        return TapWorld("singer", tmp_path / "root")


@pytest.mark.slow  # nearly all of it is what singer has
class TestAirbyte(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> TapWorld:
        return TapWorld("airbyte", tmp_path / "root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"this is {name}")
    return folder


def ill(root: Path, how: str, **more: Any) -> dict[str, Any]:
    settings = {"root": str(root), "ill": how, "pid": str(root.with_name("pid"))}
    return options_of(root, settings=settings, secrets={"token": "s3cret"}, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "more", "message"),
    [
        ("cut", {}, 'not a whole message: \'{"type": "RECORD", "stream": "fi\''),
        ("garbage", {}, "not a whole message"),
        ("deep", {}, "not a whole message"),
        ("binary", {}, "not a whole message"),
        ("killed", {}, "it was ended by SIGKILL"),
        ("exit", {}, "exit status 1: ERROR: the server said 500 to …"),
        ("endless line", {"max_size": 1000}, "a line of what it prints has more than 1,006,000 bytes"),
        ("endless", {"timeout": "1s"}, "it took longer than `timeout` and was ended"),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_is_listed(
    kind: str, how: str, more: dict[str, Any], message: str, root: Path
) -> None:
    scan = made(kind, ill(root, how, **more)).scan()
    with pytest.raises(Transient, match=message) as raised:
        next(scan)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "how", "error", "message"),
    [
        ("singer", "early", Transient, "a record of files that is malformed, or came before its schema"),
        ("singer", "batch", NeedsHuman, "sends batches"),
        ("singer", "silent", Transient, "came before its schema"),
        ("singer", "refused", NeedsHuman, "401 Client Error: Unauthorized for …; check `settings` and `secr"),
        ("airbyte", "refused", NeedsHuman, "401 Client Error: Unauthorized for …; check `settings` and `sec"),
        ("airbyte", "early", Transient, "it printed a malformed record"),
        ("airbyte", "incomplete", Transient, "it did not complete files"),
        ("airbyte", "system_error", Transient, "no way, …$"),
        ("airbyte", "config_error", NeedsHuman, "no way, …; check `settings`"),
    ],
)
def test_what_goes_wrong_in_one_protocol(
    kind: str, how: str, error: type[Exception], message: str, root: Path
) -> None:
    with pytest.raises(error, match=message):
        next(made(kind, ill(root, how)).scan())


def test_one_that_hangs_is_ended_when_its_time_is_up(root: Path) -> None:
    with pytest.raises(Transient, match="longer than `timeout`"):
        next(made("singer", ill(root, "hang", timeout="3s")).scan())
    assert is_gone(root.with_name("pid"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_leaves_running_is_ended_and_not_waited_for(kind: str, root: Path) -> None:
    assert listed(made(kind, ill(root, "leaving a child"))).keys() == {"files/a.md", "files/b.md"}
    assert is_gone(root.with_name("pid"))


def is_gone(file: Path) -> bool:
    """Whether all processes are whose numbers the file holds; it holds at least one soon."""
    until = time.monotonic() + 20
    while not (file.exists() and file.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    numbers = file.read_text().split()
    while any(_state(Path("/proc", number)) != "Z" for number in numbers) and time.monotonic() < until:
        time.sleep(0.01)
    return bool(numbers) and all(_state(Path("/proc", number)) == "Z" for number in numbers)


def _state(process: Path) -> str:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.parametrize("kind", KINDS)
def test_much_on_standard_error_does_no_harm(kind: str, root: Path) -> None:
    assert len(listed(made(kind, ill(root, "loud")))) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_of_records_of_one_key_the_last_counts(kind: str, root: Path) -> None:
    connector = made(kind, ill(root, "twice"))
    items = listed(connector)
    assert connector.fetch(items["files/a.md"]).data == b"the later one"
    with pytest.raises(NeedsHuman, match="two different records have the key"):
        next(made(kind, ill(root, "twice", key=["path"])).scan())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_shown_may_change(kind: str, root: Path) -> None:
    """The field ``seen`` is another one every time."""
    assert listed(made(kind, options_of(root))) == listed(made(kind, options_of(root)))
    seen = options_of(root, metadata=["seen"])
    assert listed(made(kind, seen)) != listed(made(kind, seen))


@pytest.mark.parametrize("kind", KINDS)
def test_a_listing_that_fails_keeps_what_was_listed_before(kind: str, root: Path) -> None:
    connector = made(kind, options_of(root))
    items = listed(connector)
    (root / "a.md").write_text("changed")
    root.rename(root.with_name("aside"))
    with pytest.raises(Transient, match="the folder is not there"):
        next(connector.scan())
    assert connector.fetch(items["files/a.md"]).data == b"this is a.md"
    root.with_name("aside").rename(root)
    assert listed(connector)["files/a.md"] != items["files/a.md"]
    with pytest.raises(Stale):
        connector.fetch(items["files/a.md"])


def test_too_large_a_document(root: Path) -> None:
    (root / "a.md").write_text("x" * 3000)
    connector = made("singer", options_of(root, max_size=2999))
    items = listed(connector)
    with pytest.raises(BadDocument, match="has 3,000 bytes; max_size is 2,999"):
        connector.fetch(items["files/a.md"])


PEEK = """
import json, os, sys
path = sys.argv[sys.argv.index("--config") + 1]
about = {
    "path": path, "mode": os.stat(path).st_mode, "folder": os.stat(os.path.dirname(path)).st_mode,
    "settings": json.load(open(path)), "words": sys.argv, "environment": dict(os.environ), "cwd": os.getcwd(),
}
json.dump(about, open(%r, "w"))
sys.exit(1)
"""


@pytest.fixture
def seen(tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """Options of a program that notes what it was given, and where it does."""
    script, notes = tmp_path / "peek.py", tmp_path / "notes.json"
    script.write_text(PEEK % str(notes))
    return options_of(tmp_path, command=[sys.executable, str(script), "in={folder}"]), notes


def test_a_program_gets_its_secrets_unseen(
    seen: tuple[dict[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, notes = seen
    monkeypatch.setenv("SOMEBODY_ELSES_TOKEN", "mine")
    more = {
        "settings": {"site": "x", "login": {"user": "ada"}},
        "secrets": {"login.password": "s3cret"},
        "environment": {"TAP_KEY": "s3cret2"},
        "folder": notes.parent,
    }
    with pytest.raises(Transient) as raised:
        next(made("singer", {**options, **more}).scan())
    given = json.loads(notes.read_text())
    assert given["settings"] == {"site": "x", "login": {"user": "ada", "password": "s3cret"}}
    assert stat.S_IMODE(given["mode"]) == 0o600
    assert stat.S_IMODE(given["folder"]) == 0o700
    assert not Path(given["path"]).exists()
    assert f"in={Path(given['path']).parent}" in given["words"]
    assert "s3cret" not in " ".join(given["words"])
    assert given["environment"]["TAP_KEY"] == "s3cret2"
    assert given["environment"]["PATH"] == os.environ["PATH"]
    assert "SOMEBODY_ELSES_TOKEN" not in given["environment"]
    assert given["cwd"] == str(notes.parent)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"command": ["tap-nowhere"]}, "tap-nowhere is not there: install it in an .*install tap-nowhere"),
        ({"command": ["./source-x"]}, "install airbyte-source-x"),
        ({"command": [str(TAP.parent)]}, "is not there: install it"),
        ({"folder": "/nonexistent"}, "can't be run .*correct `command` or `folder`"),
        ({"command": ["echo", "hello"]}, "gives no catalog"),
        ({"streams": ["files", "people"]}, "has no stream people; it has files, .*others: correct `streams`"),
        ({"text": "{titel}"}, "stream files has no field 'titel'; it has path, content, size, seen, owner"),
        ({"key": ["owner.nick"]}, "a record of files has no owner.nick: choose another `key`"),
        ({"secrets": {"root.x": "s"}}, "`secrets` has root.x, but `settings` has no mapping root"),
    ],
)
def test_what_needs_a_person(kind: str, changed: dict[str, Any], message: str, root: Path) -> None:
    with pytest.raises(NeedsHuman, match=message):
        next(made(kind, options_of(root, **changed)).scan())


STREAM = Stream("issues", ("id",), {"id": {}, "title": {}, "user": {}, "labels": {}, "data": {}, "a.b": {}})
DATA = Stream("files", ("id",), {"id": {}, "data": {"type": "string", "contentEncoding": "base64"}})
VALUES = {"id": 7, "user": {"name": "Ada", "address": None}, "labels": ["a", "b"], "a.b": "dot", "new": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 7),
        ("title", None),  # the stream may have it, this record has not
        ("user.name", "Ada"),
        ("user.address.city", None),
        ("user.nobody", None),
        ("labels.x", None),
        ("a.b", "dot"),
        ("new", 1),  # not in the schema, yet there
    ],
)
def test_a_field(name: str, value: object) -> None:
    assert field(StreamRecord(STREAM, VALUES), name) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (None, None),
        (1.5, 1.5),
        (True, "true"),
        (["a", 1, None, False], "a, 1, None, false"),
        ({"b": 1, "a": "ü"}, '{"a": "ü", "b": 1}'),
        ([{"a": 1}], '[{"a": 1}]'),
        (b"\0", b"\0"),
    ],
)
def test_what_people_read_of_a_value(value: object, expected: object) -> None:
    assert shown(value) == expected


def options(**changed: Any) -> SingerOptions:
    return SingerOptions.model_validate(
        {"command": ["x"], "streams": ["issues"], "text": "{title}", **changed}
    )


def test_a_document() -> None:
    wanted = options(
        text="# {title}\n\n{user.name}: {labels}",
        file_name="{key}.html",
        uri="https://example.org/{id}",
        metadata=["id", "labels", "title", "user.name"],
    )
    given = document(StreamRecord(STREAM, {**VALUES, "title": "One\ud800"}), wanted)
    assert (given.key, given.name, given.uri) == ("issues/7", "7.html", "https://example.org/7")
    assert given.data.decode() == "# One?\n\nAda: a, b"
    assert given.metadata == (("id", 7), ("labels", "a, b"), ("title", "One?"), ("user.name", "Ada"))


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        (["id"], {"id": "a/b"}, "issues/a/b"),
        (["id", "title"], {"id": "a/b", "title": "c"}, "issues/a%2Fb/c"),
        (["id", "title"], {"id": "a", "title": "b/c"}, "issues/a/b%2Fc"),
        (["id"], {"id": 0}, "issues/0"),
        (["user.name"], VALUES, "issues/Ada"),
    ],
)
def test_a_key(key: list[str], values: dict[str, Any], expected: str) -> None:
    assert document(StreamRecord(STREAM, values), options(key=key)).key == expected


def test_numbers_that_no_database_takes() -> None:
    values = {"id": 2**70, "title": float("nan"), "labels": float("inf")}
    given = document(StreamRecord(STREAM, values), options(metadata=["id", "title", "labels"]))
    assert given.metadata == (("id", str(2**70)), ("title", None), ("labels", None))


@pytest.mark.parametrize(("content", "data"), [("AAH/", b"\0\1\xff"), ("no base64!", b"no base64!")])
def test_bytes_are_there_as_the_schema_says(content: str, data: bytes) -> None:
    given = document(StreamRecord(DATA, {"id": 1, "data": content}), options(text="{data}"))
    assert given.data == data


def test_a_stream_without_a_key() -> None:
    stream = Stream("log", (), {})
    with pytest.raises(NeedsHuman, match="log does not say which fields identify a record: set `key`"):
        document(StreamRecord(stream, {"id": 1}), options())
    assert document(StreamRecord(stream, {"id": 1}), options(key=["id"])).key == "log/1"


def test_secrets_are_put_where_their_names_say() -> None:
    settings = {"a": {"b": 1}, "day": 5}
    merged = with_secrets(settings, {"a.c.d": SecretStr("x"), "e": SecretStr("y")})
    assert merged == {"a": {"b": 1, "c": {"d": "x"}}, "day": 5, "e": "y"}
    assert settings == {"a": {"b": 1}, "day": 5}


def test_files_are_for_this_user_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = Program(options(), tmp_path).file("x.json", {"a": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600


@pytest.mark.parametrize("model", [SingerOptions, AirbyteOptions])
@pytest.mark.parametrize(
    "changed", [{"command": []}, {"streams": []}, {"text": "no field"}, {"uri": "x"}, {"timeout": 0}]
)
def test_options_that_make_no_sense(model: type[SingerOptions], changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate({"command": ["x"], "streams": ["a"], "text": "{b}", **changed})
