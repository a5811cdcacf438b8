"""Who may see the pages and press their buttons."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from ingestor.http_server.peers import PeerUsers
from ingestor.page.opening import is_page, pages_of
from ingestor.page.site import keep_local
from ingestor.service.port import common
from tests.nobody import as_nobody
from tests.page.seen import Page
from tests.service.world import Daemon, Http, served

TOKEN = "t0ken-of-the-port"
OPEN = {"/static/{name}"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    daemon = Daemon(tmp_path)
    with served(daemon, token=TOKEN) as client:
        yield client
    daemon.close()


def sign_in(client: httpx.Client, token: str = TOKEN) -> None:
    client.auth = ("anybody", token)


def all_routes(folder: Path) -> list[Route]:
    daemon = Daemon(folder)
    pages = pages_of(common(daemon.view(), Http()), lambda: None, folder)  # type: ignore[arg-type, return-value]
    pages.close()
    daemon.close()
    return [route for route in pages.routes if isinstance(route, Route)]


def test_every_address_requires_the_token(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    routes = all_routes(tmp_path / "other")
    assert len(routes) > 12
    for route in routes:
        assert is_page(route.path)
        for method in (route.methods or set()) - {"HEAD"}:
            said = client.request(method, route.path.replace("{document}", "x").replace("{name}", "page.css"))
            if route.path in OPEN:
                continue
            assert said.status_code == 401, (route, said)
            assert said.headers["WWW-Authenticate"].startswith("Basic ")
            assert "form_token" not in said.text


def test_session_is_of_this_port_alone(client: httpx.Client) -> None:
    """Browsers send a password to the origin that asked for it, port included, and cookies to every port."""
    sign_in(client, "guess")
    assert client.get("/").status_code == 401
    sign_in(client)
    page = client.get("/")
    assert page.status_code == 200
    assert TOKEN not in page.text
    assert "set-cookie" not in client.post("/page/retry", data={"form_token": Page(page).token()}).headers
    assert not client.cookies
    assert client.get("/metrics").status_code == 401, "the password is for the pages alone"


def test_program_may_send_the_token(client: httpx.Client) -> None:
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200

    def refused(wrong: str) -> bool:
        return client.get("/", headers={"Authorization": wrong.encode("latin-1")}).status_code == 401

    with ThreadPoolExecutor() as pool:  # each is answered late
        assert all(
            pool.map(refused, ("Bearer guess", "Basic guess", "Basic", f"Basic {TOKEN}", "Basic \xe9"))
        )


def test_form_must_be_of_this_session(client: httpx.Client) -> None:
    sign_in(client)
    mine = Page(client.get("/")).token()
    for token in ("", "x", mine[:-1]):
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
    sign_in(client)
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=visit).status_code == 200
    for other in (
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Origin": "http://evil.example"},
    ):
        assert client.get("/", headers={**visit, **other}).status_code == 403
    assert client.post("/page/retry", headers=visit, data={}).status_code == 403


def test_proxy_with_tls_is_allowed_in_front(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with served(daemon, token=TOKEN, hosts=["docs.example"], public_url="https://docs.example/") as client:
        sign_in(client)
        through = {"Host": "docs.example", "Origin": "https://docs.example"}
        assert client.get("/", headers=through).status_code == 200
        other = {**through, "Origin": "https://docs.example:444"}
        assert client.get("/", headers=other).status_code == 403
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
def test_forms_lead_to_our_pages_only(address: str, goes_to: str) -> None:
    assert keep_local(address) == goes_to


BUTTONS = ["retry", "apply", "rollback", "accept", "pause", "resume"]
PRESS = """
import sys, urllib.error, urllib.parse, urllib.request
base, token, *buttons = sys.argv[1:]
for button in buttons:
    data = urllib.parse.urlencode({"form_token": token, "source": "docs", "document": ""}).encode()
    try:
        print(urllib.request.urlopen(f"{base}/page/{button}", data).status)
    except urllib.error.HTTPError as error:
        print(error.code, "only the user who runs ingestor" in error.read().decode())
print("view only" in urllib.request.urlopen(f"{base}/").read().decode())
"""


def test_only_the_owner_changes_something_where_no_token_is_set(empty: httpx.Client) -> None:
    token = Page(empty.get("/page/changes")).token()
    base = str(empty.base_url).rstrip("/")
    command = as_nobody(sys.executable, "-I", "-c", PRESS, base, token, *BUTTONS, "plan")
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert said.splitlines() == ["403 True"] * len(BUTTONS) + ["200", "True"], "a plan changes nothing"
    mine = empty.post("/page/pause", data={"form_token": token, "source": "docs"})
    assert mine.status_code == 303
    assert "view only" not in empty.get("/").text


def test_every_button_but_the_plan_requires_the_owner(tmp_path: Path) -> None:
    deeds = {route.path for route in all_routes(tmp_path) if "POST" in (route.methods or set())}
    assert deeds == {f"/page/{button}" for button in [*BUTTONS, "plan"]}


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via"])
def test_proxy_without_a_token_changes_nothing(empty: httpx.Client, header: str) -> None:
    """Whoever uses it, it runs as one user."""
    token = Page(empty.get("/page/changes")).token()
    form = {"form_token": token, "source": "docs"}
    assert empty.post("/page/pause", data=form, headers={header: "203.0.113.9"}).status_code == 403


def test_buttons_need_a_token_if_users_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerUsers, "missing", "no netlink here", raising=False)
    monkeypatch.setattr(PeerUsers, "__init__", lambda self: setattr(self, "_kernel", None))
    daemon = Daemon(tmp_path)
    with served(daemon) as client:
        page = Page(client.get("/"))
        assert "view only" in page.text
        said = client.post("/page/pause", data={"form_token": page.token(), "source": "docs"})
        assert (said.status_code, "buttons need `http.token`" in said.text) == (403, True)
    with served(daemon, token=TOKEN) as client:
        sign_in(client)
        assert "view only" not in client.get("/").text
    daemon.close()
