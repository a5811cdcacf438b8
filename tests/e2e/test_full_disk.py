"""A disk that fills while documents are ingested, Chroma's or the state's: the daemon waits, and goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_sync import long_document
from tests.small_disk import fill, small_disk
from tests.waiting import wait

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
def test_a_full_disk_is_waited_out(project: Project, cramped: tuple[str, Path]) -> None:
    which, disk = cramped
    add(project, range(FIRST))
    daemon = project.start()
    try:
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
    finally:
        daemon.kill()
    assert project.json("verify")["checked"] == end["collections"]["docs"]["records"]


def test_a_start_on_a_full_disk_is_refused_in_a_few_words(
    project: Project, cramped: tuple[str, Path]
) -> None:
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


@pytest.mark.parametrize("left", [0, 80_000])
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


@pytest.mark.parametrize("megabytes", [600, 1200])
def test_limited_address_space_ends_without_a_traceback(project: Project, megabytes: int) -> None:
    (project.docs / "a.txt").write_text("some words")
    project.under = ("prlimit", f"--as={megabytes * 1_000_000}")
    found = project.call("sync")
    assert "Traceback" not in found.stderr
    if found.returncode:
        assert "ulimit -v" in found.stderr or "out of memory" in found.stderr
