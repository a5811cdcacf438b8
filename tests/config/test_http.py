"""The service port in a config: its address, and what is refused."""

import pytest

from ingestor.config.models import readers_ask_service
from tests.config.written import SOURCE, checked, said


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ("{host: 0.0.0.0}", "1: http.host: 0.0.0.0 can be reached from other machines: set `token`"),
        ("{host: search.example.org}", "1: http.host: search.example.org can be reached"),
        ("{port: 8000}", "1: http.port: 8000 is also the port of chroma: set `http: {port: ...}`"),
        (
            "{host: 0.0.0.0, token: '${T:-a}'}",
            "1: http.token: 0.0.0.0 can be reached from other machines: set 16",
        ),
        ("{host: db.local, token: '${T:-fifteen-letters}'}", "1: http.token: db.local can be reached"),
        ("{token: '${T:-a b}'}", "1: http.token: must be ASCII"),
        ("{public_url: search.example.org}", "1: http.public_url: "),
        ("{readers: nobody}", "1: http.readers: "),
        ("{prot: 1}", "1: http: unknown key 'prot'; did you mean 'port'?"),
        ("7", "1: http: must be"),
    ],
)
def test_service_port_with_bad_options_is_refused(http: str, message: str) -> None:
    (problem,) = said(f"http: {http}\n{SOURCE}")
    assert problem.startswith(message)


@pytest.mark.parametrize(
    ("top", "port", "url", "asked"),
    [
        ("", 8001, "http://127.0.0.1:8001", True),
        ("http: true", 8001, "http://127.0.0.1:8001", True),
        ("http: {readers: model}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {path: c, host: 0.0.0.0}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}\nhttp: {readers: service}", 8001, "http://127.0.0.1:8001", True),
        ("chroma: {host: db}\nhttp: {public_url: 'https://x.org/s/'}", 8001, "https://x.org/s", True),
        ("chroma: {path: c, embedded: true}", 8001, "http://127.0.0.1:8001", False),
        ("http: {host: '::', token: '${T:-sixteen-letters-}', port: 9}", 9, "http://[::1]:9", True),
    ],
)
def test_readers_ask_service_where_they_reach_it(top: str, port: int, url: str, asked: bool) -> None:
    config = checked(f"{top}\n{SOURCE}")
    assert config.http is not None
    assert (config.http.port, config.http.url) == (port, url)
    assert readers_ask_service(config.http, config.chroma) is asked


def test_config_older_than_service_port_stays_valid() -> None:
    config = checked(f"chroma: {{path: c, port: 8001}}\n{SOURCE}")
    assert config.http is None
    assert "no service port: 8001 is also the port of chroma" in str(config.warnings[0])
    assert checked(f"http: false\n{SOURCE}").http is None
