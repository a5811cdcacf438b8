"""Mishaps around the program: full disks, limits of memory, and quotas of the server."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.bad_parser import installed
from tests.chroma.quota_proxy import Cloud, cloud_before
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project, long_document, running
from tests.serving import HOST, shared_server
from tests.small_disk import fill, small_disk
from tests.waiting import wait


def as_others(project: Project) -> None:
    """Commands may then read and write only what file permissions allow, as root otherwise need not care."""
    if os.geteuid() != 0:
        return
    if shutil.which("setpriv") is None:
        pytest.skip("root without setpriv can't give up its rights")
    project.under = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.parametrize("ready", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_unwritable_state_folder_is_refused(project: Project, ready: bool) -> None:
    as_others(project)
    (project.docs / "a.txt").write_text("Some words.")
    if ready:
        assert project.call("sync").returncode == 0
    state = project.folder / "state"
    state.mkdir(exist_ok=True)
    for path in (state, *state.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for command in ("sync", "run") if ready else ("sync",):
            refused = project.call(command)
            assert refused.returncode == 4, refused
            assert "Traceback" not in refused.stderr
            assert str(state) in refused.stderr
            assert "Permission denied" in refused.stderr
    finally:
        for path in (state, *state.iterdir()):
            path.chmod(0o755)
    project.under = ()
    assert project.json("sync")["documents"]["added" if not ready else "unchanged"] == 1


# --- A disk that fills while documents are ingested ---
FIRST, THEN = 2, 12  # documents before the disk is full, and meanwhile


@pytest.fixture(params=["chroma", pytest.param("state", marks=pytest.mark.slow)])
def cramped(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A project of which this folder lies on a small disk."""
    with small_disk(tmp_path / "disk", {"chroma": 110, "state": 8}[request.param]) as disk:
        chroma = {"path": "./chroma", "port": project.port}
        settings = {"chroma": chroma, "state": "./state"}
        if request.param == "chroma":
            settings["chroma"] = {**chroma, "path": str(disk / "chroma")}
        else:
            settings["state"] = str(disk / "state")
        project.settings = settings
        project.configure()
        yield request.param, disk


def add(project: Project, documents: range) -> None:
    for n in documents:
        (project.docs / f"{n}.txt").write_text(long_document(100, n))


WAITS = {
    "chroma": "collection docs: write failed, will retry: the disk of",
    "state": "the state folder",
}


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_full_disk_is_waited_out(project: Project, cramped: tuple[str, Path]) -> None:
    which, disk = cramped
    add(project, range(FIRST))
    with running(project) as daemon:
        wait(lambda: project.settled(FIRST))
        add(project, range(FIRST, FIRST + THEN))
        ballast = fill(disk)
        wait(lambda: WAITS[which] in daemon.said())
        full = project.json("status")
        assert full["running"]
        assert full["sources"]["docs"]["settled"] < FIRST + THEN
        if which == "chroma":
            assert "less than 50 MB left" in full["collections"]["docs"]["reason"]
        assert daemon.process.poll() is None

        ballast.unlink()
        wait(lambda: project.settled(FIRST + THEN), seconds=100)
        end = project.json("status")
        assert end["collections"]["docs"]["healthy"]
        assert end["embedded_texts"] == end["collections"]["docs"]["records"], "embedded once each"
        said = daemon.said()
        assert said.count(WAITS[which]) <= 3, "not at every try"
        assert "again" in said.split(WAITS[which])[-1]
        assert "Traceback" not in said
        assert daemon.stop() == 0
    assert project.json("verify")["checked"] == end["collections"]["docs"]["records"]


@pytest.mark.slow
def test_start_on_a_full_disk_is_refused_in_few_words(project: Project, cramped: tuple[str, Path]) -> None:
    _, disk = cramped
    add(project, range(FIRST))
    ballast = fill(disk)
    refused = project.call("sync")
    assert refused.returncode == 4, refused
    assert "Traceback" not in refused.stderr
    assert "disk" in refused.stderr + refused.stdout or "space" in refused.stderr, refused
    assert str(disk) in (refused.stderr + refused.stdout).replace("\n", ""), refused
    ballast.unlink()
    assert project.json("sync")["documents"]["added"] == FIRST


@pytest.mark.parametrize("left", [80_000, pytest.param(0, marks=pytest.mark.slow)])
def test_full_disk_of_the_state_is_named_at_the_start(tmp_path: Path, left: int) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        project = Project(tmp_path / "project", {"state": str(disk / "state")})
        (project.docs / "a.txt").write_text("some words")
        assert project.call("sync").returncode == 0
        fill(disk, left)
        for command in ("sync", "run"):
            refused = project.call(command)
            assert refused.returncode == 4
            assert f"the disk of {disk / 'state'} is full" in refused.stdout + refused.stderr
            assert "Traceback" not in refused.stderr
        (disk / "ballast").unlink()
        assert project.call("sync").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [600, 1200])
def test_limited_address_space_ends_without_a_traceback(project: Project, megabytes: int) -> None:
    (project.docs / "a.txt").write_text("some words")
    project.under = ("prlimit", f"--as={megabytes * 1_000_000}")
    found = project.call("sync")
    assert "Traceback" not in found.stderr
    if found.returncode:
        assert "ulimit -v" in found.stderr or "out of memory" in found.stderr


# --- Where a group of processes has less memory than a document takes, the parser ends, and nothing else ---
LIMIT = 900_000_000  # bytes of daemon, Chroma and parsers together


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of this limit; needs root, and control groups that may be changed."""
    old = Path("/sys/fs/cgroup/memory")
    place = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"ingestor-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            (place / limit).write_text(str(LIMIT))
        except OSError as error:
            pytest.skip(f"this control group limits no memory: {error}")
        yield place
    finally:
        with suppress(OSError):
            for pid in (place / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        wait(lambda: not (place / "cgroup.procs").read_text())
        place.rmdir()


@pytest.mark.slow
def test_document_taking_all_memory_of_the_group_fails_alone(
    tmp_path: Path, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", installed(tmp_path / "plugins", "rtf"))
    parsing = {"memory": "8GB", "seconds": "60s", "processes": 1}
    project = Project(tmp_path / "project", {"parsing": parsing})
    with running(project) as daemon:
        (group / "cgroup.procs").write_text(str(daemon.process.pid))
        wait(lambda: "Chroma listens" in daemon.said())
        (project.docs / "eats.rtf").write_text(r"{\rtf1 eat")
        (project.docs / "beside.txt").write_text("A lantern hangs beside it.")
        wait(lambda: any(one["document"] == "eats.rtf" for one in project.json("status")["failures"]), 120)
        wait(lambda: project.json("status")["sources"]["docs"]["settled"] == 1, 60)
        print(project.json("status")["failures"])
        assert "Chroma ended" not in daemon.said() and daemon.process.poll() is None
        assert daemon.stop() == 0


# --- Chroma as Chroma Cloud ---
@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[tuple[int, Cloud]]:
    with shared_server(tmp_path / "chroma") as running:
        base = f"http://{HOST}:{running.port}/api/v2/tenants"
        httpx.post(base, json={"name": "acme"})
        httpx.post(f"{base}/acme/databases", json={"name": "prod"})
        with cloud_before(running.port) as found:
            yield found


def test_text_that_the_server_does_not_take_stops_no_other(
    project: Project, ask: Ask, cloud: tuple[int, Cloud]
) -> None:
    port, seen = cloud
    chroma = {"host": HOST, "port": port, "tenant": "acme", "database": "prod"}
    project.settings = {
        "chroma": {**chroma, "quotas": "cloud"},
        "chunking": {"strategy": "fixed", "size": 8000},
    }
    project.configure()
    (project.docs / "good.md").write_text("# Good\n\nWords.\n")
    (project.docs / "long.md").write_text("word " * 7000)
    done = answered(ask("sync", "--json"), 3)
    assert done["documents"]["quarantined"] == 1
    [problem] = done["problems"]
    assert problem["document"] == "long.md" and "at most 16,384" in problem["reason"]
    assert (done["records"]["added"], seen.refused) == (1, {})
    project.settings["chroma"] = {**chroma, "quotas": {"document_bytes": None}}  # the server says it, too
    project.configure()
    done = answered(ask("sync", "--json"), 3)
    assert "'Document size' exceeded quota limit" in done["problems"][0]["reason"]
    assert done["documents"]["quarantined"] == 1
    assert answered(ask("verify", "--json"))["checked"] == 1
