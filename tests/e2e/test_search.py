"""Search on the command line and at the service port, while documents change."""

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingestor.service.client import DaemonClient
from tests.e2e.in_process import Ask
from tests.e2e.project import Daemon, Project, running
from tests.serving import free_port
from tests.waiting import wait

pytestmark = pytest.mark.timeout(900)
PAGE = """# Pumps

## Faults

The fault ERR_4711 means that the pump is blocked.

Then it must be opened.

## Repair

Pumps were opened with a key of § 12.
"""


def test_words_are_found_beside_a_daemon(project: Project, daemon: Daemon, ask: Ask) -> None:
    (project.docs / "pumps.md").write_text(PAGE)
    for n in range(5):
        (project.docs / f"other{n}.md").write_text(f"# Other {n}\n\nNothing of interest is in number {n}.\n")
    wait(lambda: project.settled(6))
    wait(lambda: project.poll("query", "ERR_4711")["mode"] == "hybrid")
    for mode in ("hybrid", "lexical"):
        found = project.poll("query", "ERR_4711", "--mode", mode, "-n", "1")
        assert (found["mode"], found["fallback"]) == (mode, None)
        assert "ERR_4711" in found["hits"][0]["document"]
        assert found["hits"][0]["ranks"]["lexical"] == 1
    whole = project.poll("query", "err 4711", "-n", "1", "--expand", "document")["passages"]
    assert [(one["text"], one["start"], one["end"]) for one in whole] == [
        (PAGE.strip(), 0, len(PAGE.strip()))
    ]
    assert whole[0]["source"].endswith("pumps.md")
    assert whole[0]["lines"][0] == 1
    only = '{"file_name": "other3.md"}'
    hits = project.poll("query", "blocked pump number", "--where", only, "--mode", "lexical")["hits"]
    assert {hit["metadata"]["file_name"] for hit in hits} == {"other3.md"}
    assert project.poll("query", "pump", "--budget", "1")["passages"] == []
    shown = ask("query", "blocked", "--mode", "lexical", "--expand", "document").out
    assert "pumps.md:1-" in shown and "§ 12" in shown


# --- Search at the service port of a real daemon ---


def make_served(folder: Path, **http: Any) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), **http}})
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.md").write_text(f"# The {name}\n\nAll that is known about the {name}.\n")
    return found


def search(of: Project, query: str, **more: Any) -> httpx.Response:
    address = f"http://127.0.0.1:{of.settings['http']['port']}/search"
    return httpx.post(address, json={"query": query, **more}, timeout=60, trust_env=False)


def test_questions_are_answered_while_it_ingests_and_swaps(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    with running(here) as daemon:
        wait(lambda: here.settled(3) and search(here, "bridge").json()["mode"] == "hybrid")
        first = search(here, "bridge", n=1, expand="document").json()
        assert first["passages"][0]["text"].endswith("All that is known about the bridge.")
        own = here.poll("query", "bridge", "-n", "1", "--expand", "document")
        assert {**own, "seconds": 0} == {**first, "seconds": 0}
        ended, seen = threading.Event(), Counter[Any]()

        def ask() -> None:
            while not ended.is_set():
                said = search(here, "bridge", n=1)
                hits = said.json().get("hits") or [{"metadata": {"recipe": said.text}}]
                seen[said.status_code, hits[0]["metadata"]["recipe"]] += 1

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for n in range(20):
                (here.docs / f"new{n}.md").write_text(f"Number {n} is new.\n")
            wait(lambda: here.settled(23))
            here.settings["chunking"] = {"strategy": "recursive", "size": 30}
            here.settings["embedding"] = {"kind": "hashing", "dimensions": 96}
            here.configure()
            wait(lambda: len({recipe for _, recipe in seen}) > 1)
            wait(lambda: here.settled(23))
        finally:
            ended.set()
            asking.join()
        assert {status for status, _ in seen} == {200}, seen
        assert len(seen) == 2, seen
        assert daemon.stop() == 0, daemon.said()
    assert "Traceback" not in daemon.said()


def test_command_uses_the_daemon_if_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = make_served(tmp_path, token="file:" + str(tmp_path / "token"))
    (tmp_path / "token").write_text("t0ken-of-the-port")
    asked: list[Any] = []
    of_client = DaemonClient.search
    monkeypatch.setattr(DaemonClient, "search", lambda self, q: asked.append(of_client(self, q)) or asked[-1])
    with running(here) as daemon:
        wait(lambda: here.settled(3))
        assert here.poll("query", "harbour", "-n", "1")["hits"][0]["document"].strip()
        assert asked[-1] is not None, "the daemon answered"
        other = make_served(tmp_path / "other", token="file:" + str(tmp_path / "token"))
        other.settings["http"]["port"] = here.settings["http"]["port"]
        other.configure()
        with running(other):
            wait(lambda: other.settled(3))
            found = other.poll("query", "harbour", "-n", "1")["hits"]
        assert asked[-1] is None, "a daemon of another project does not answer"
        assert str(other.docs) in found[0]["metadata"]["source"]
        bad = here.call("query", "harbour", "--where", '{"a": {"$like": "b"}}')
        assert (bad.returncode, "$like" in bad.stderr) == (2, True), bad.stderr
        assert daemon.stop() == 0
    asked.clear()
    assert here.poll("query", "harbour", "-n", "1")["hits"]
    assert asked == []


# the next test but one before it shows that the daemon answers; tests/cli/test_lazy_imports.py holds imports
@pytest.mark.slow
def test_query_beside_a_daemon_loads_no_model(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    with running(here):
        wait(lambda: here.settled(3))
        code = (
            "import sys, atexit; from ingestor.cli.main import main; "
            "modules = lambda: sorted({m.split('.')[0] for m, module in sys.modules.items() if module}); "
            "atexit.register(lambda: print(modules(), file=sys.stderr)); "
            f"sys.argv = ['ingestor', 'query', 'bridge', '--config', {str(here.config)!r}]; main()"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not {"'openvino'", "'tiktoken'", "'chromadb'"} & set(done.stderr.strip("[]\n").split(", "))
