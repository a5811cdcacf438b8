"""Tokens, signatures and options."""

import hmac
import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from ingestor.connectors.push.connector import PushOptions
from tests.connectors.push.watching import SECRET, Watch, connector, watched
from tests.connectors.pushing import TOKEN, Caller
from tests.waiting import wait

WRONG = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    f"Bearer {TOKEN}x",
    TOKEN,
    f"Basic {TOKEN}",
    "Bearer \xe9",
]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/documents/a"),
        ("GET", "/documents/a"),
        ("GET", "/documents"),
        ("DELETE", "/documents/a"),
        ("POST", "/look?source=x"),
        ("GET", "/nowhere"),
        ("PATCH", "/documents"),
    ],
)
def test_without_the_token_nothing_is_told(here: Watch, method: str, path: str) -> None:
    for given in WRONG:
        stranger = Caller(here.caller.port, {} if given is None else {"Authorization": given})
        said = stranger.ask(method, path, b"x")
        assert (said.status, said.body) == (401, b'{"error": "the token is missing or wrong"}\n'), given
        assert said.headers["WWW-Authenticate"] == "Bearer"
    assert here.caller.ask("GET", "/documents").body == b'{"documents": []}\n'


def test_tokens_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    of = connector(tmp_path / "pushed")
    with watched(of) as watch:
        wait(watch.caller.is_answered, every=0.01)
        watch.caller.put("a", b"x")
        watch.caller.put("a", b"x", Authorization="Bearer wr0ng")
        watch.caller.look("source=a", **signed(b"{}"))
    assert "/documents/a" in caplog.text
    shown = caplog.text + repr(of._options)
    assert not [secret for secret in (TOKEN, SECRET, "wr0ng") if secret in shown]


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"Authorization": "", "X-Hub-Signature-256": f"sha256={digest}"}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/look?source=wiki", b'{"ref": "main"}', signed(b'{"ref": "main"}'), 202),
        ("/look?source=wiki", b'{"ref": "main"}', signed(b'{"ref": "other"}'), 401),
        ("/look?source=wiki", b"", signed(b"", "other"), 401),
        ("/look?source=wiki", b"", {"Authorization": "", "X-Hub-Signature-256": "sha256="}, 401),
        ("/look", b"", signed(b""), 400),
        ("/documents", b"", signed(b""), 401),
    ],
)
def test_signed_webhook_may_say_look_again_and_nothing_else(
    here: Watch, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert here.caller.ask("POST", path, body, **headers).status == status


def test_without_a_secret_no_signature_is_right(tmp_path: Path) -> None:
    with watched(connector(tmp_path / "pushed", webhook_secret=None)) as watch:
        wait(watch.caller.is_answered, every=0.01)
        assert watch.caller.look("source=wiki", **signed(b"")).status == 401


@pytest.mark.parametrize(
    "options",
    [
        {"token": ""},
        {},
        {"token": "t", "webhook_secret": ""},
        {"token": "t", "port": 0},
        {"token": "t", "max_size": "1GB"},
        {"token": "t", "host": "http://x"},
        {"token": "fifteen-letters", "host": "0.0.0.0"},
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PushOptions.model_validate({"folder": tmp_path, **options})
