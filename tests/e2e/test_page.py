"""The pages of a real daemon: seen and used while it works, and no obstacle when it ends."""

import threading
from pathlib import Path

import httpx
import pytest

from tests.e2e.project import Project, free_port
from tests.e2e.test_service import running
from tests.page.seen import Page
from tests.waiting import wait

pytestmark = pytest.mark.timeout(900)


def project(folder: Path, **http: object) -> tuple[Project, httpx.Client]:
    port = free_port()
    here = Project(folder / "project", {"http": {"port": port, **http}})
    for name in ("harbour", "bridge"):
        (here.docs / f"{name}.md").write_text(f"# The {name}\n\nAll that is known about the {name}.\n")
    (here.docs / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    address = f"http://127.0.0.1:{port}"
    return here, httpx.Client(base_url=address, timeout=60, trust_env=False, follow_redirects=True)


def test_a_daemon_is_seen_in_a_browser_and_ends_while_one_listens(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken-of-the-port")
    here, client = project(tmp_path, token=f"file:{tmp_path / 'token'}")
    with running(here) as daemon, client:
        wait(lambda: here.settled(2))
        wait(lambda: f"Open in a browser: {str(client.base_url).rstrip('/')}/" in daemon.said())
        assert client.get("/").status_code == 401
        client.auth = ("anybody", "t0ken-of-the-port")
        overview = wait(
            lambda: (text := client.get("/").text) and "In step, with exceptions" in text and text
        )
        assert "broken.pdf" in overview
        assert "known about the <mark>bridge</mark>." in client.get("/page/search?q=bridge").text
        shown = client.get("/page/documents?match=harbour").text
        id_ = shown.partition('href="/page/documents/')[2].partition('"')[0]
        assert "All that is known about the harbour." in client.get(f"/page/documents/{id_}").text

        heard = threading.Event()

        def listen() -> None:
            with httpx.stream(
                "GET", f"{client.base_url}/page/events", auth=client.auth, timeout=60, trust_env=False
            ) as stream:
                for _ in stream.iter_lines():
                    heard.set()

        listener = threading.Thread(target=listen)
        listener.start()
        assert heard.wait(60)
        assert daemon.stop() == 0, daemon.said()
        listener.join(60)
        assert not listener.is_alive()
    assert "Traceback" not in daemon.said()


@pytest.mark.slow  # a config is taken over, and its source removed: half a minute
def test_what_left_the_config_is_applied_by_a_button(tmp_path: Path) -> None:
    here, client = project(tmp_path)
    with running(here), client:
        wait(lambda: here.settled(2))
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "late.md").write_text("It came late.\n")
        here.settings["sources"] = [
            {"name": "late", "kind": "folder", "path": str(tmp_path / "other"), "collection": "docs"}
        ]
        here.configure()
        wait(lambda: "left the config" in client.get("/page/changes").text)
        token = Page(client.get("/page/changes")).token()
        assert "Applied: source docs" in client.post("/page/apply", data={"form_token": token}).text
        wait(lambda: "harbour.md" not in client.get("/page/documents").text)
        wait(lambda: "late.md" in client.get("/page/documents").text)
