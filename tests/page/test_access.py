"""Who may see the pages and press their buttons."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ingestor.page import sessions
from ingestor.page.opening import judges, pages_of
from ingestor.page.sessions import COOKIE, Sessions
from ingestor.page.site import local
from ingestor.service.port import common
from tests.page.seen import Page
from tests.service.world import Daemon, Http, served

TOKEN = "t0ken-of-the-port"
OPEN = {"/page/sign-in", "/static/{name}"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    daemon = Daemon(tmp_path)
    with served(daemon, token=TOKEN) as client:
        yield client
    daemon.close()


def sign_in(client: httpx.Client, token: str = TOKEN, next_: str = "/") -> httpx.Response:
    form = {"form_token": Page(client.get("/page/sign-in")).token(), "token": token, "next": next_}
    return client.post("/page/sign-in", data=form)


def all_routes(folder: Path) -> list[Route]:
    daemon = Daemon(folder)
    pages = pages_of(common(daemon.view(), Http()), lambda: None, folder)  # type: ignore[arg-type, return-value]
    pages.close()
    daemon.close()
    return [route for route in pages.routes if isinstance(route, Route)]


def test_every_address_asks_for_the_token(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    routes = all_routes(tmp_path / "other")
    assert len(routes) > 12
    for route in routes:
        assert judges(route.path)
        for method in (route.methods or set()) - {"HEAD"}:
            said = client.request(method, route.path.replace("{document}", "x").replace("{name}", "page.css"))
            if route.path in OPEN:
                continue
            shown = said.headers.get("location", "").startswith("/page/sign-in") if method == "GET" else False
            assert said.status_code in (401, 403, 415) or (said.status_code == 303 and shown), (route, said)
    assert client.get("/").headers["location"] == "/page/sign-in?next=/"
    assert (
        client.get("/page/search?q=a b").headers["location"]
        == "/page/sign-in?next=/page/search%3Fq%3Da%2520b"
    )


def test_a_browser_signs_in_and_out(client: httpx.Client) -> None:
    wrong = sign_in(client, "guess")
    assert "wrong=1" in wrong.headers["location"]
    assert "set-cookie" not in wrong.headers
    assert "This is not the token." in client.get(wrong.headers["location"]).text
    right = sign_in(client, f" {TOKEN}\n", "/page/search?q=a")
    assert (right.status_code, right.headers["location"]) == (303, "/page/search?q=a")
    cookie = right.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert TOKEN not in cookie
    assert "secure" not in cookie, "without TLS a browser would drop it"
    page = Page(client.get("/"))
    assert page.status == 200
    assert client.get("/page/sign-in").status_code == 303
    assert client.get("/metrics").status_code == 401, "the session is for the pages alone"
    assert client.post("/search", json={"query": "a"}).status_code == 401
    kept = dict(client.cookies)
    assert client.post("/page/sign-out", data={"form_token": page.token()}).status_code == 303
    client.cookies.clear()
    client.cookies.update(kept)
    assert client.get("/").status_code == 303, "the session itself ended"


def test_a_program_may_send_the_token(client: httpx.Client) -> None:
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"Authorization": "Bearer guess"}).status_code == 303


def test_a_form_must_be_of_this_session(client: httpx.Client) -> None:
    before = Page(client.get("/page/sign-in")).token()
    sign_in(client)
    mine = Page(client.get("/")).token()
    for token in ("", "x", before, mine[:-1]):
        said = client.post("/page/retry", data={"form_token": token, "document": ""})
        assert (said.status_code, "reload the page" in said.text) == (403, True)
    assert client.post("/page/retry", json={"form_token": mine}).status_code == 415
    assert client.post("/page/retry", content=b"form_token=" + b"x" * 30_000).status_code in (413, 415)
    assert client.get("/page/retry").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_pages_of_other_sites_may_do_nothing(client: httpx.Client, headers: dict[str, str]) -> None:
    sign_in(client)
    token = Page(client.get("/")).token()
    said = client.post("/page/retry", data={"form_token": token, "document": ""}, headers=headers)
    assert said.status_code in (403, 421)


def test_links_from_other_sites_may_be_followed_and_nothing_else(client: httpx.Client) -> None:
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/page/sign-in", headers=visit).status_code == 200
    for other in (
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Origin": "http://evil.example"},
    ):
        assert client.get("/page/sign-in", headers={**visit, **other}).status_code == 403
    assert client.post("/page/sign-in", headers=visit, data={"token": TOKEN}).status_code == 403
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/metrics", headers={**visit, **bearer}).status_code == 403


def test_a_proxy_with_tls_may_stand_before_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with served(daemon, token=TOKEN, hosts=["docs.example"], public_url="https://docs.example/") as client:
        through = {"Host": "docs.example", "Origin": "https://docs.example"}
        token = Page(client.get("/page/sign-in", headers=through)).token()
        form = {"form_token": token, "token": TOKEN}
        said = client.post("/page/sign-in", headers=through, data=form)
        assert said.headers["location"] == "/"
        assert "secure" in said.headers["set-cookie"].lower()
        other = {**through, "Origin": "https://docs.example:444"}
        assert client.post("/page/sign-in", headers=other, data=form).status_code == 403
    daemon.close()


@pytest.mark.parametrize(
    ("address", "goes_to"),
    [
        ("/", "/"),
        ("/page/search?q=a%20b", "/page/search?q=a%20b"),
        ("//evil.example/page/", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/page/\r\nSet-Cookie: a=b", "/"),
        ("javascript:alert(1)", "/"),
        ("/metrics", "/"),
        ("", "/"),
    ],
)
def test_signing_in_leads_to_our_pages_only(address: str, goes_to: str) -> None:
    assert local(address) == goes_to


def test_sessions_end_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(sessions, "monotonic", lambda: clock[0])
    kept = Sessions(TOKEN)

    def opened() -> Request:
        response = Response()
        assert kept.open(TOKEN, Request({"type": "http", "headers": []}), response)
        value = response.headers["set-cookie"].partition(";")[0].encode()
        return Request({"type": "http", "headers": [(b"cookie", value)]})

    first = opened()
    assert kept.admits(first)
    assert not kept.admits(Request({"type": "http", "headers": [(b"cookie", f"{COOKIE}=x".encode())]}))
    clock[0] = sessions.LASTS + 1
    assert not kept.admits(first)
    many = [opened() for _ in range(sessions.MOST + 1)]
    assert not kept.admits(many[0])
    assert all(map(kept.admits, many[1:]))
    assert len({kept.form_token(each) for each in many}) == len(many)
