"""The library: a project in this process, without the command line."""

import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass
from pathlib import Path

import pytest

import ingestor
from ingestor import BadRequest, ConfigError, IngestorError, Locked, NeedsHuman, Project, SyncProgress
from ingestor.project import Ready
from tests.waiting import wait

pytestmark = pytest.mark.usefixtures("forked_chroma")
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/library.md").read_text("utf-8")
CONFIG = """\
state: ./state
chroma: {path: ./chroma, embedded: true}
http: false
embedding: {kind: hashing, dimensions: 64}
chunking: {strategy: recursive, size: 60}
sources: [{name: notes, kind: folder, path: ./notes, collection: docs, settle: 0s}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mill.md").write_text("# Does the mill grind?\n\nThe mill grinds slowly.\n")
    (tmp_path / "config.yaml").write_text(CONFIG)
    return Project(tmp_path / "config.yaml")


def test_library_goes_through_plan_sync_status_search_and_verify(project: Project) -> None:
    plan = project.plan()
    assert (plan.documents.added, plan.complete) == (1, True)
    seen: list[SyncProgress] = []
    report = project.sync(progress=seen.append)
    assert (report.documents.added, report.records.added, report.complete) == (1, plan.records.added, True)
    assert seen
    assert seen[-1].waiting == 0
    status = project.status()
    assert (status.running, status.sources["notes"].settled) == (False, 1)
    assert "grinds slowly" in project.search("mill").hits[0].document
    assert project.suggest() == ("Does the mill grind?",)
    assert project.verify().clean
    assert [chunk.text for chunk in project.document("mill.md").records]
    with project.documents() as (sources, documents):
        assert ([*sources], [each.document for each in documents]) == (["notes"], ["mill.md"])


def test_results_are_frozen_dataclasses(project: Project) -> None:
    results = [project.plan(), project.sync(), project.status(), project.search("mill"), project.verify()]
    for result in results:
        assert is_dataclass(result)
        assert not isinstance(result, type)
        with pytest.raises(FrozenInstanceError):
            setattr(result, fields(result)[0].name, None)
        json.dumps(asdict(result), default=list)


def test_every_error_that_a_user_can_act_on_is_an_ingestor_error(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Project(tmp_path / "none.yaml").plan()
    with pytest.raises(NeedsHuman, match="no documents were indexed yet"):
        project.search("mill")
    project.sync()
    for mistake in (
        lambda: project.search(" "),
        lambda: project.search("mill", collection="other"),
        lambda: project.search("mill", n=0),
        lambda: project.pause("other"),
        lambda: project.accept("notes"),
        lambda: project.document("other.md"),
        lambda: project.verify(rebuild=True),
    ):
        with pytest.raises(BadRequest):
            mistake()
    names = ("BadRequest", "BadDocument", "ConfigError", "Gone", "Locked", "NeedsHuman", "Torn", "Transient")
    assert all(issubclass(getattr(ingestor, name), IngestorError) for name in names)


def test_error_of_the_system_becomes_an_ingestor_error(project: Project, tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "state")
    with pytest.raises(NeedsHuman):
        project.sync()


def test_search_inside_a_block_keeps_chroma_open_and_its_end_closes_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingestor.queries import reading

    project.sync()
    opened, real = [], reading.collections_of
    monkeypatch.setattr(reading, "collections_of", lambda *given: opened.append(1) or real(*given))
    with project:
        assert project.search("mill").hits
        assert project.search("slowly").hits
        assert len(opened) == 1
        assert project.sync().complete, "a writer does not wait for searches of the same project"
        assert project.search("mill").hits
        assert len(opened) == 2
    project.search("mill")
    project.search("mill")
    assert len(opened) == 4


def test_search_answers_several_threads(project: Project) -> None:
    project.sync()
    with project, ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda number: project.search(f"mill {number}").hits, range(12))]
    assert all(answers)


def test_second_writer_is_refused_and_daemon_ends_with_its_event(project: Project) -> None:
    stop, ready = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        daemon = pool.submit(project.run, ready=lambda found: ready.set(), stop=stop)
        try:
            wait(lambda: ready.is_set() or daemon.done())
            assert project.is_running()
            with pytest.raises(Locked):
                project.sync()
        finally:
            stop.set()
        daemon.result(60)
    assert not project.is_running()


@pytest.mark.parametrize("listed", [True, False])
def test_daemon_reports_whether_a_source_was_listed(project: Project, tmp_path: Path, listed: bool) -> None:
    if not listed:
        (tmp_path / "notes").rename(tmp_path / "elsewhere")
    stop, reported = threading.Event(), list[object]()

    def ready(state: Ready) -> None:
        reported.append((state.listed, state.unseen))
        stop.set()

    project.run(ready=ready, stop=stop)
    assert reported == [(listed, () if listed else ("notes",))]


def test_interrupted_sync_is_reported_and_resumed(project: Project) -> None:
    stop = threading.Event()
    stop.set()
    assert project.sync(stop=stop).interrupted
    assert project.sync().complete


def test_search_follows_a_changed_config_inside_a_block(project: Project) -> None:
    project.sync()
    with project:
        assert project.search("mill").hits
        project.path.write_text(CONFIG.replace("collection: docs", "collection: other"))
        with pytest.raises(BadRequest, match="no collection 'other'"):
            project.search("mill")


def test_import_of_the_library_is_quick() -> None:
    """It imports nothing of the program before a name is used."""
    program = "import ingestor, sys; print(*(name for name in sys.modules if 'ingestor' in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("ingestor.")] == []


def test_example_of_the_page_runs(project: Project, tmp_path: Path) -> None:
    (example,) = re.findall(r"(?ms)^```python\n(from ingestor import Project.*?)^```", PAGE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 added" in done.stdout
    assert "grinds slowly" in done.stdout


def test_page_lists_every_public_name_and_method() -> None:
    public = {name for name in dir(ingestor) if name[0].isupper() and name not in ("Any", "TYPE_CHECKING")}
    methods = {name for name in vars(Project) if not name.startswith("_")} - {"of"}
    assert {name for name in public | methods if not re.search(rf"`(?:\w+\.)?{name}\b", PAGE)} == set()
