"""Repositories over HTTP, addresses and options."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from ingestor.connectors.git.connector import Git, GitOptions
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.laws import listed
from tests.connectors.repositories import GitWorld, Server, served

LOGIN = "ada:s3cret"


@pytest.fixture
def server(world: GitWorld) -> Iterator[Server]:
    with served(world.root, LOGIN) as server:
        yield server


def over_http(server: Server, folder: Path, **options: object) -> Git:
    user, _, token = LOGIN.partition(":")
    given = {"url": server.url, "user": user, "token": token, "cache": folder / "cache", **options}
    return Git(GitOptions.model_validate(given))


def test_repository_over_http_is_read_with_its_password(
    world: GitWorld, server: Server, tmp_path: Path
) -> None:
    world.put("a.md", b"one")
    connector = over_http(server, tmp_path)
    items = listed(connector)
    assert connector.fetch(items["a.md"]).data == b"one"
    assert items["a.md"].uri == server.url.replace("/.git", "/a.md")
    server.requests.clear()
    assert listed(connector) == items
    assert server.requests == ["GET refs", "POST git-upload-pack"], "a question for the branch, no fetch"
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert b"s3cret" not in kept


@pytest.mark.parametrize("options", [{"token": "wrong"}, {"token": None}])
def test_remote_that_refuses_access_needs_a_person(
    server: Server, tmp_path: Path, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ASKPASS", "/bin/false")
    with pytest.raises(NeedsHuman, match="refuses the login") as caught:
        list(over_http(server, tmp_path, **options).scan())
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, NeedsHuman), (404, NeedsHuman), (429, Transient), (503, Transient)]
)
def test_refusal_of_the_server_is_reported(
    server: Server, tmp_path: Path, status: int, kind: type[Exception]
) -> None:
    server.answer = status
    with pytest.raises(kind):
        list(over_http(server, tmp_path).scan())


def test_connection_that_is_cut(world: GitWorld, server: Server, tmp_path: Path) -> None:
    world.put("a.md", b"one" * 10_000)
    connector = over_http(server, tmp_path)
    server.cut = True
    with pytest.raises(Transient):
        list(connector.scan())
    server.cut = False
    assert listed(connector).keys() == {"a.md"}


def test_fetch_that_takes_too_long_is_ended(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = over_http(server, tmp_path, timeout=0.3)
    monkeypatch.setattr(server, "finish_request", lambda *arguments: time.sleep(1.5))
    with pytest.raises(Transient, match=r"longer than 0\.3 s"):
        list(connector.scan())


def test_branch_that_is_not_there(world: GitWorld, tmp_path: Path) -> None:
    world.put("a.md", b"one")
    with pytest.raises(NeedsHuman, match="has no branch or tag 'gone': correct `ref`"):
        list(Git(GitOptions(url=str(world.root), ref="gone", cache=tmp_path / "cache")).scan())


# -- options


@pytest.mark.parametrize(
    "url", ["https://host/x.git", "ssh://git@host/x", "git@host:x/y.git", "file:///x", "/x", "git://host/x"]
)
def test_address_of_each_kind_is_accepted(url: str) -> None:
    assert GitOptions(url=url).url == url


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "./x"}, "must be an https"),
        ({"url": "--upload-pack=x:y"}, "must be an https"),
        ({"url": "ext::sh -c x"}, "must be an https"),
        ({"url": "https://me:secret@host/x"}, "put it into `token`"),
        ({"url": "https://secret@host/x"}, "put it into `token`"),
        ({"url": "/x", "ref": "--force"}, "name of a branch or tag"),
        ({"url": "/x", "ref": "a:b"}, "name of a branch or tag"),
        ({"url": "git@host:x", "token": "t"}, "is for http and https"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GitOptions.model_validate(options)
