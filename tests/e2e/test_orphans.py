"""No process outlives the command that started it, whatever ends the command."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.bad_parser import installed
from tests.e2e.project import INGESTOR, Project
from tests.orphans import Family, family
from tests.waiting import LONG, wait

SLEEP = "time.sleep(900)"
HANGING = f"""
import subprocess, sys

def hang():
    subprocess.run([sys.executable, "-c", "import time; {SLEEP}"])
"""
PARSE = """
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.model import Blob
from ingestor.registry import Options
Isolation(Limits(seconds=900)).parse("rtf", Options(), Blob(b"{}", "a"))
"""
# Code that starts a child of each kind, which works for many minutes, and a part of the child's command line.
KINDS = {
    "parser that computes": (PARSE.format("hang"), "ingestor.sandbox.child"),
    "parser that waits": (PARSE.format("sleep"), "ingestor.sandbox.child"),
    "code of a source": (
        "from ingestor.connectors.programs.loading import PythonOptions, build_python\n"
        "list(build_python(PythonOptions(call='hanging:hang', folder=here)).scan())",
        SLEEP,
    ),
    "git": (
        "from ingestor.connectors.git.repository import Clone, Login\n"
        "Clone(here / 'clone', 'ssh://host/repository', Login(), 900).fetch('HEAD', 'x', shallow=False)",
        "sleep 900",
    ),
    "feed": (
        "from ingestor.connectors.web import feed\n"
        "feed._CHILD = 'hanging_feed'\n"
        "feed.read_confined(b'x', None, 'x', 900)",
        "hanging_feed",
    ),
    "plan of the page": (
        "from ingestor.page.changes import planner\n"
        f"planner(here / 'project/config.yaml').begin(); import time; {SLEEP}",
        "loading_child",
    ),
    "Chroma": (
        "from ingestor.chroma.server import ChromaServer\n"
        "ChromaServer(here / 'chroma', '127.0.0.1', 0, here / 'chroma.log').start()\n"
        f"import time; {SLEEP}",
        "chroma/child.py",
    ),
    "sweeper of a trial": (
        f"from ingestor.cli.trial import _temporary_folder\nimport time\nwith _temporary_folder(): {SLEEP}",
        "rm -rf",
    ),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project whose sources and documents are never read to the end."""
    folder = tmp_path_factory.mktemp("orphans")
    installed(folder / "plugins", "rtf")
    (folder / "hanging.py").write_text(HANGING)
    (folder / "hanging_feed.py").write_text(f"import sys, time; sys.stdin.read(1) and {SLEEP}\n")
    project = Project(folder / "project")
    (project.docs / "a.rtf").write_bytes(rb"{\rtf1 sleep")
    sources = {
        "files": {"kind": "folder", "path": "./docs", "settle": "0s"},
        "code": {"kind": "python", "call": "hanging:hang", "folder": str(folder)},
        "git": {"kind": "git", "url": "ssh://host/repository", "cache": str(folder / "cache")},
    }
    project.settings = {
        "sources": [{"name": name, "collection": "docs", **source} for name, source in sources.items()],
        "parsing": {"seconds": "900s"},
    }
    project.configure()
    return folder


@pytest.fixture
def environment(here: Path) -> dict[str, str]:
    path = os.pathsep.join([str(here), str(here / "plugins")])
    return {**os.environ, "PYTHONPATH": path, "GIT_SSH_COMMAND": "sleep 900;"}


def runs(running: Family, *words: str) -> bool:
    commands = running.descendants().values()
    return all(any(each in command for command in commands) for each in words)


@pytest.mark.slow  # test_children_end_with_the_daemon is the quick one
@pytest.mark.parametrize("kind", KINDS)
def test_child_ends_with_its_killed_parent(kind: str, here: Path, environment: dict[str, str]) -> None:
    code, words = KINDS[kind]
    command = (sys.executable, "-c", f"from pathlib import Path; here = Path({str(here)!r})\n{code}")
    for delay in (0.0, 0.003, 0.03, 0.1, None):
        with family(*command, folder=here, environment=environment) as running:
            wait(running.descendants, every=0.0)
            if delay is None:
                wait(lambda: runs(running, words))
            time.sleep(0.5 if delay is None else delay)
            running.end(signal.SIGKILL)
            wait(running.has_ended, LONG)


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGINT))],
)
def test_children_end_with_the_daemon(number: int, here: Path, environment: dict[str, str]) -> None:
    project = here / "project"
    command = (str(INGESTOR), "run", "--config", str(project / "config.yaml"))
    with family(*command, folder=project, environment=environment) as running:
        wait(lambda: runs(running, "sandbox.child", "chroma/child.py", SLEEP, "sleep 900"))
        running.end(number)
        wait(running.has_ended, LONG)
