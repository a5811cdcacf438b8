"""What the commands that look say, above all when something is wrong, unfinished or cannot be seen."""

import json
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ingestor.app import plan as planning
from ingestor.app import queries
from ingestor.app.building.parts import Parts
from ingestor.app.daemon import Loop
from ingestor.app.estimate import look_alikes
from ingestor.app.planning.recorder import Recorder
from ingestor.app.queries import current_status
from ingestor.app.recipe_changes import outlook
from ingestor.app.signals import Signals
from ingestor.app.status import Status
from ingestor.app.wiring import Running, opened
from ingestor.cli.main import main
from ingestor.cli.output import summary
from ingestor.cli.run import init
from ingestor.config.file import load
from ingestor.config.models import ConfigError
from ingestor.core.decisions import NEVER, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Receipt
from ingestor.model import Item
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.listing import Source, take
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.queries.reports import Reports
from ingestor.state.running_config import NAME, in_force
from tests.e2e.in_chroma import in_chroma
from tests.e2e.in_process import Ask
from tests.e2e.project import Project, wait
from tests.parsers.files import pdf

SAMPLES = Path(__file__).parents[2] / "documents"
PICTURE = b"\x89PNG\r\n\x1a\n\x00"


@pytest.fixture
def synced(project: Project, ask: Ask) -> Project:
    project.source = {"settle": "0s"}
    project.configure()
    (project.docs / "a.txt").write_text("some words")
    (project.docs / "b.txt").write_text("other words")
    assert ask("sync").code == 0
    return project


_MODULES = """
import sys
from ingestor.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["status", "ls"])
def test_a_command_without_arrays_imports_no_numpy(synced: Project, ask: Ask, command: str) -> None:
    for name in range(3):  # equal texts: some are found by a twin's vector alone
        (synced.docs / f"{name}.txt").write_text("some words")
    assert ask("sync").code == 0
    synced.settings = {"embedding": {}, "chunking": {}}  # the defaults; what the tests use has arrays
    synced.configure()
    done = subprocess.run(
        [sys.executable, "-c", _MODULES, command],
        cwd=synced.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "docs" in done.stdout
    costly = {"numpy", "httpx", "http.client", "chromadb", "ingestor.lexical.terms", "ingestor.text.outline"}
    assert not costly & set(done.stderr.split())


# --- plan --------------------------------------------------------------------------------------------------


def test_a_plan_sees_what_chroma_lost(synced: Project, ask: Ask) -> None:
    assert ask("plan").code == 0
    in_chroma(synced.folder / "chroma", "docs", "collection.delete(collection.get()['ids'][:1])")
    less = ask("plan")
    assert less.code == 4
    assert "collection docs: it holds 1 record, and the journal says 2" in less.out
    shutil.rmtree(synced.folder / "chroma")
    gone = ask("plan")
    assert gone.code == 4
    assert "collection docs: it is gone" in gone.out
    assert "Nothing to do" not in less.out + gone.out
    assert not (synced.folder / "chroma").exists(), "plan must touch nothing"


def test_a_plan_sees_that_a_source_is_missing(synced: Project, ask: Ask) -> None:
    synced.docs.rename(synced.folder / "elsewhere")
    answer = ask("plan")
    assert answer.code == 4
    assert "source docs: " in answer.out
    assert "Nothing to do" not in answer.out
    assert json.loads(ask("plan", "--json").out)["unseen"].keys() == {"docs"}


def test_a_plan_says_that_a_sync_would_ask(project: Project, ask: Ask) -> None:
    for number in range(30):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    assert ask("sync").code == 0
    for number in range(29):
        (project.docs / f"{number}.txt").unlink()
    answer = ask("plan", "--json")
    assert answer.code == 4
    planned = json.loads(answer.out)
    assert planned["documents"]["removed"] == 0
    assert "a sync would remove nothing, and ask" in planned["unseen"]["docs"]


def test_a_plan_leaves_it_to_what_runs(synced: Project, ask: Ask) -> None:
    (synced.docs / "c.txt").write_text("more words")
    assert "To do it: " in ask("plan").out
    with opened(load(synced.config, {}), serve=False):
        answer = ask("plan")
    assert answer.out.splitlines()[-1] == "Nothing was changed. The running ingestor does it by itself."


def test_a_first_plan_knows_about_how_many_records_come_out(tmp_path: Path) -> None:
    """A sync of the samples with the real model gave 175; with one vector for all texts, 80 were planned."""
    project = Project(tmp_path / "real", {"embedding": {}, "chunking": {}}, {"path": str(SAMPLES)})
    parts = Parts(load(project.config, {}))
    recorder = Recorder(None, parts.embedder_recipe, 384, look_alikes(384))
    journal, nobody = Journal.blank(), DryRunAnswers(None, parts.tokens.counts)
    sources = [
        source
        for each in outlook(parts, journal)
        for source in parts.sources(each.serves, each.edition, recorder, nobody)
    ]
    plan = planning.make(journal, sources, recorder, nobody, parts.tokens.counts)
    journal.close()
    assert 160 < plan.records["added"] < 190
    assert not plan.cuts_known


def test_a_disk_that_a_plan_speaks_of_is_about_as_full_afterwards(synced: Project, ask: Ask) -> None:
    """Though there are few records by which to tell how much one takes."""
    before = _size(synced)
    for number in range(12):
        text = " ".join(f"Word {number * 400 + n} is here." for n in range(400))
        (synced.docs / f"{number}.txt").write_text(text)
    planned = _plan(ask)["disk"]
    assert json.loads(ask("sync", "--json").out)["records"]["added"] > 300
    grown = _size(synced) - before
    assert 0.5 < planned / grown < 2, (planned, grown)


def _plan(ask: Ask) -> Any:
    """A plan for files that nobody has written to only just now."""
    answer = wait(lambda: found if (found := ask("plan", "--json")).code == 0 else None)
    return json.loads(answer.out)


def _size(project: Project) -> int:
    files = [*(project.folder / "chroma").rglob("*"), *(project.folder / "state").glob("*.sqlite3")]
    return sum(file.stat().st_size for file in files if file.is_file())


def test_show_names_the_other_documents_of_that_name(synced: Project, ask: Ask) -> None:
    other = synced.folder / "other"
    other.mkdir()
    (other / "a.txt").write_text("words of another source")
    folder = {"kind": "folder", "settle": "0s", "collection": "docs"}
    paths = {"docs": "./docs", "other": "./other"}
    synced.settings = {"sources": [{"name": name, "path": path, **folder} for name, path in paths.items()]}
    synced.configure()
    assert ask("sync").code == 0
    found = {one["source"]: one for one in json.loads(ask("ls", "--json").out) if one["document"] == "a.txt"}
    answer = ask("show", "a.txt")
    assert (answer.code, "some words" in answer.out, "another" in answer.out) == (0, True, False)
    assert answer.err.startswith("source other also has a document of this name; to see it: ")
    assert f"show {found['other']['document_id']}" in answer.err
    answer = ask("show", found["other"]["document_id"], "--json")
    assert (json.loads(answer.out)["chunks"][0]["text"], answer.err) == ("words of another source", "")


def test_a_rollback_where_nothing_is_kept_says_what_is_kept_and_how_long(synced: Project, ask: Ask) -> None:
    answer = ask("rollback")
    assert answer.code == 2
    assert "'docs' has no earlier state to return to" in answer.err
    assert answer.err.endswith("leaves the old one, for 1 hour (rechunk.grace)\n")


def test_a_rollback_says_what_it_did_and_how_to_go_on(synced: Project, ask: Ask) -> None:
    synced.settings = {"rechunk": "swap", "chunking": {"strategy": "fixed", "size": 4}}
    synced.configure()
    assert ask("sync").code == 0
    assert "its state before the last change is kept for another" in ask("status").out
    answer = ask("rollback")
    assert answer.out.startswith("readers of docs see it as it was before the last change of the config.")
    assert "The config file still has that change: take it out, or carry it out again with:" in answer.out
    waits = "collection docs waits for apply: this change of the config was undone by `ingestor rollback`"
    assert waits in ask("status").out


def test_a_value_that_an_option_does_not_take_is_told_plainly(ask: Ask) -> None:
    answer = ask("query", "words", "--mode", "sparse")
    assert (answer.code, "Value error" in answer.err) == (2, False)
    assert "Invalid value for '--mode': 'sparse' is not one of 'hybrid', 'dense', 'lexical'" in answer.err


def test_init_says_which_folder_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "no folder" / "where.yaml"
    with pytest.raises(SystemExit) as end:
        init(path)
    told = capsys.readouterr().err
    assert end.value.code == 4
    assert told.endswith(f"there is no folder {path.parent}; to make it: mkdir -p '{path.parent}'\n")


def test_a_rollback_to_a_collection_that_is_gone_says_so(synced: Project, ask: Ask) -> None:
    synced.settings = {"rechunk": "swap", "chunking": {"strategy": "fixed", "size": 4}}
    synced.configure()
    assert ask("sync").code == 0
    lost = """
import sys, chromadb
client = chromadb.PersistentClient(sys.argv[1])
[old] = [found.name for found in client.list_collections() if found.name != "docs"]
client.delete_collection(old)
"""
    in_chroma(synced.folder / "chroma", "docs", lost)
    before = synced.essence()
    answer = ask("rollback")
    assert answer.code == 4
    assert "of 2 records that 'docs' had before, Chroma has 0 left" in answer.err
    assert synced.essence() == before


# --- a config with an error --------------------------------------------------------------------------------


# An option, the state folder, no YAML.
MISTAKES = [("size: 60", "sized: 60"), ("state: ", "sate: "), ("sources:", "sources: ]")]


def test_who_looks_sees_what_runs_though_the_config_has_an_error(synced: Project, ask: Ask) -> None:
    good = synced.config.read_text()
    with opened(load(synced.config, {}), serve=False):
        for right, wrong in MISTAKES:
            synced.config.write_text(good.replace(right, wrong))
            status = ask("status", "--json")
            assert status.code == 0
            assert str(synced.config) in json.loads(status.out)["config_error"]
            assert json.loads(status.out)["config_since"]
            assert "the previous config stays in force since" in ask("status").out
            assert ask("status", "--check").code == 0
            for words in (("ls",), ("show", "a.txt"), ("query", "words"), ("pause",), ("resume",)):
                answer = ask(*words)
                assert answer.code == 0, answer
                assert "also for this command" in answer.err
            assert ask("plan").code == 2  # it is about what the file says
    assert ask("status").code == 2  # nothing runs, and so nothing is in force


@pytest.mark.parametrize(
    ("right", "wrong", "key"),
    [("http: false", "http: {port: 9}", "http"), ("state: ./state", "state: ./.ingestor", None)],
)
def test_who_looks_sees_what_waits_for_a_restart(
    synced: Project, ask: Ask, right: str, wrong: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "PATIENCE", 1.0)  # for Chroma, which a program of another state has
    good = synced.config.read_text()
    (synced.docs / "new.txt").write_text("some new words")
    changed = good.replace(right, wrong).replace("name: docs", "name: extra")
    assert changed != good
    if key is None:  # what runs is in the default folder
        good, changed, key = changed.replace("name: extra", "name: docs"), good, "state"
        synced.config.write_text(good)
    said = f"the config file differs in {key}, which takes effect at a restart"
    with opened(load(synced.config, {}), serve=False):
        synced.config.write_text(changed)
        status = json.loads(ask("status", "--json").out)
        assert said in status["config_error"]
        assert (status["config_restart"], status["running"]) == ([key], True)
        assert "extra" not in status["sources"], "of the config in force"
        assert f"{said}; until then the config of " in " ".join(ask("status").out.split())
        planned = " ".join(ask("plan").out.split())
        assert said.removeprefix("the ") in planned
        assert "does it by itself" not in planned
        assert json.loads(ask("plan", "--json").out)["restart"] == [key]
        synced.config.write_text(good + "# another comment\n")
        assert json.loads(ask("status", "--json").out)["config_error"] is None
    synced.config.write_text(changed)
    assert json.loads(ask("status", "--json").out)["config_error"] is None, "nothing runs"


def test_what_is_kept_of_a_config_is_no_secret(synced: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "fifteen-elephants"
    monkeypatch.setenv("CHROMA_TOKEN", secret)
    synced.config.write_text(synced.config.read_text().replace("size: 60", "size: ${SIZE}"))
    with opened(load(synced.config, {"SIZE": "61", "CHROMA_TOKEN": secret}), serve=False):
        kept = synced.folder / "state" / NAME
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert "${SIZE}" in kept.read_text()
        kept.chmod(0o666)  # anybody could have written it
        synced.config.write_text("nonsense")
        with pytest.raises(ConfigError, match=r"config.yaml"):
            in_force(synced.config, {"SIZE": "61"})


# --- what no parser reads ----------------------------------------------------------------------------------


def test_what_no_parser_reads_is_counted_by_kind_and_is_no_failure(synced: Project, ask: Ask) -> None:
    for number in range(5):
        (synced.docs / f"{number}.png").write_bytes(PICTURE)
    (synced.docs / "backup.bin").write_bytes(b"\x00\x01\x02")
    planned = _plan(ask)
    assert planned["documents"]["unsupported"] == 6
    assert "docs: 5 .png, looks like an image" in ask("plan").out
    answer = ask("sync")
    assert answer.code == 0
    assert "skipped     5 .png, 1 .bin: no parser reads them" in answer.out
    assert answer.err.count(".png (docs)") == 1, answer.err  # told once
    found = json.loads(ask("sync", "--json").out)
    assert found["unsupported"] == {".png": 5, ".bin": 1}
    assert (found["documents"]["unsupported"], found["documents"]["quarantined"]) == (6, 0)
    assert found["problems"] == []
    status = json.loads(ask("status", "--json").out)
    assert status["sources"]["docs"]["unsupported"] == {".png": 5, ".bin": 1}
    assert status["failures"] == []
    shown = ask("status").out
    assert "docs: 5 .png, looks like an image" in shown
    assert shown.splitlines()[0] == "not running; nothing is left to do"
    assert [d["state"] for d in json.loads(ask("ls", "--json").out)].count("unsupported") == 6
    assert "nothing to retry" in ask("retry", "--all").out
    assert ask("plan").code == 0
    assert _plan(ask)["skipped"] == planned["skipped"] == status["skipped"]


def test_a_document_whose_name_promises_a_parser_is_a_failure(synced: Project, ask: Ask) -> None:
    (synced.docs / "report.pdf").write_bytes(b"\x00\x01\x02")
    answer = ask("sync", "--json")
    assert answer.code == 3
    assert json.loads(answer.out)["documents"]["quarantined"] == 1
    assert ask("plan").code == 3  # of old ones, too
    (synced.docs / "report.pdf").write_bytes(PICTURE)  # still no PDF
    assert ask("sync").code == 3
    (synced.docs / "report.pdf").rename(synced.docs / "report.png")
    assert ask("sync").code == 0


# --- what is empty or incomplete ---------------------------------------------------------------------------


def test_no_document_is_empty_in_silence(synced: Project, ask: Ask) -> None:
    (synced.docs / "scan.pdf").write_bytes(pdf([[], []]))
    (synced.docs / "half.pdf").write_bytes(pdf([[], [(50, 700, 10, "A sentence that can be read.")]]))
    (synced.docs / "nothing.txt").write_bytes(b"")
    (synced.docs / "nothing too.txt").write_bytes(b"\n")
    answer = ask("sync")
    assert answer.code == 0  # nothing to retry
    assert "empty       3 documents; why: ingestor status" in answer.out
    assert "incomplete  1 document; why: ingestor status" in answer.out
    documents = {d["document"]: d for d in json.loads(ask("ls", "--json").out)}
    assert documents["half.pdf"]["state"] == "incomplete"
    assert (documents["half.pdf"]["settled"], documents["half.pdf"]["records"]) == (True, 1)
    assert (documents["scan.pdf"]["state"], documents["scan.pdf"]["records"]) == ("empty", 0)
    assert "OCR would read them" in documents["scan.pdf"]["reason"]
    assert documents["nothing.txt"]["reason"] == "it holds no text"
    status = json.loads(ask("status", "--json").out)
    source = status["sources"]["docs"]
    assert (source["empty"], source["incomplete"], source["due"], status["failures"]) == (3, 1, 0, [])
    assert source["settled"] == len(documents)
    assert [short["document"] for short in status["short"]] == [
        "half.pdf", "nothing too.txt", "nothing.txt", "scan.pdf",
    ]  # fmt: skip
    shown = ask("status").out
    assert "4 documents empty or incomplete:" in shown
    assert "docs: nothing too.txt and 1 more\n    empty: it holds no text" in shown
    told = json.loads(ask("show", "half.pdf", "--json").out)
    assert (told["state"], "1 of 2 pages" in told["reason"]) == ("incomplete", True)
    assert "nothing to retry" in ask("retry", "--all").out
    assert json.loads(ask("sync", "--json").out)["short"] == status["short"]
    (synced.docs / "scan.pdf").write_bytes(pdf([[(50, 700, 10, "Text at last.")]]))
    ask("sync")
    assert json.loads(ask("status", "--json").out)["sources"]["docs"]["empty"] == 2


def test_show_tells_why_a_document_has_no_records(synced: Project, ask: Ask) -> None:
    """As ``ls`` tells it."""
    (synced.docs / "report.pdf").write_bytes(PICTURE)
    (synced.docs / "photo.png").write_bytes(PICTURE)
    ask("sync")
    listed = {one["document"]: one for one in json.loads(ask("ls", "--json").out)}
    for key, state in (("report.pdf", "quarantined"), ("photo.png", "unsupported"), ("a.txt", "settled")):
        told = json.loads(ask("show", key, "--json").out)
        assert (told["state"], told["reason"]) == (listed[key]["state"], listed[key]["reason"])
        assert told["state"] == state
        assert (told["reason"] is None) == (state == "settled")
        assert (told["reason"] is None) or f"{state}: {told['reason']}" in ask("show", key).out


# --- what is unfinished ------------------------------------------------------------------------------------


def test_what_an_interrupted_sync_left_did_not_fail(project: Project) -> None:
    for number in range(15):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    with opened(load(project.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        found = summary.of_sync(running, 0.0, {})
    assert (found["documents"]["failed"], found["documents"]["due"]) == (0, 15)


def test_a_sync_that_ends_during_a_rebuild_counts_each_document_once(synced: Project, ask: Ask) -> None:
    (synced.docs / "photo.png").write_bytes(PICTURE)
    (synced.docs / "report.pdf").write_bytes(PICTURE)
    ask("sync")
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "swap"}}
    synced.configure()
    with opened(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        (new,) = (edition for edition in Editions(running.journal).all() if edition.role == "staging")
        for entry in running.journal.of_collection(new.name):
            if entry.key in ("a.txt", "photo.png"):
                parser, refusal = "text", None
                if entry.key == "photo.png":
                    parser, refusal = NO_PARSER, Failure("no text", 1, NEVER, quarantined=True)
                version, recipe = entry.item.version, entry.wanted_recipe
                done = Receipt(entry.row, version, recipe, "f", "d", parser, failure=refusal)
                running.journal.settle([done], [recipe])
        found = summary.of_sync(running, 0.0, {})["documents"]
        (old,) = (edition for edition in Editions(running.journal).all() if edition.role == "live")
        for entry in running.journal.of_collection(old.name):
            if entry.key in ("a.txt", "b.txt"):
                assert entry.item is not None
                away = Failure("its server is away", 1, NEVER, quarantined=False)
                running.journal.fail(entry.row, entry.item.version, away)
        behind = summary.of_sync(running, 0.0, {})["documents"]
    assert (found["unchanged"], found["quarantined"], found["unsupported"]) == (2, 1, 1)
    assert found["due"] == 2  # b.txt and report.pdf, in the new collection
    assert (behind["failed"], behind["due"]) == (1, 2), "a.txt, which is done in the new collection alone"


def test_a_listing_under_way_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a sync that is ended meanwhile, too."""
    for name in "abc":
        (project.docs / f"{name}.txt").write_text("some words")
    here, go_on = threading.Event(), threading.Event()

    def slowly(source: Source, *given: object) -> object:
        connector = type(source.connector)

        def scan(self: object) -> Iterator[Item]:
            for item in real(self):
                yield item
                here.set()
                go_on.wait(60)

        real = connector.scan
        with monkeypatch.context() as patch:
            patch.setattr(connector, "scan", scan)
            return take(source, *given)  # type: ignore[arg-type]

    monkeypatch.setattr("ingestor.pipeline.listing.take", slowly)
    signals = Signals()

    def listing() -> Status | None:
        status = current_status(in_force(project.config, {}))
        found = status.sources["docs"].listing
        return status if found is not None and found.seen else None

    with opened(load(project.config, {}), serve=False) as running, ThreadPoolExecutor(1) as pool:
        sync = pool.submit(Loop(running, signals, lambda live: None).sync)
        try:
            assert here.wait(60)
            status = wait(listing)
            found = status.sources["docs"].listing
            assert found.seen == 1
            assert found.at in ("a.txt", "b.txt", "c.txt")
            assert 0 < status.started - 60 < found.since
            signals.stop = True
            sync.result()
            unfinished = summary.of_sync(running, 0.0, {})["unseen"]
        finally:
            signals.stop = True
            go_on.set()
    assert "its listing did not complete, after 1 document" in unfinished["docs"]


def test_ls_and_status_agree_about_what_is_due(synced: Project) -> None:
    """Also where the same version is to be cut in another way."""
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "in_place"}}
    synced.configure()
    with opened(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        reports = Reports(running.journal)
        assert [state for *_, state, _ in reports.counts()] == ["due"]
        assert {(each.state, each.settled) for each in reports.documents()} == {("due", False)}


def test_status_names_strategy_and_model(synced: Project, ask: Ask) -> None:
    found = json.loads(ask("status", "--json").out)["collections"]["docs"]
    assert (found["strategy"], found["model"]) == ("recursive", "hashing")


def _list(running: Running) -> None:
    """Until all was listed, and nothing else was done."""
    scanner = running.engine.scanner
    scanner.start()
    while scanner.under_way() or scanner.taking_over():
        outcome = running.pool.next(30)
        assert outcome is not None
        scanner.scanned(outcome.tag, outcome)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["nowhere/config.yaml", "file/config.yaml"])
def test_a_mistake_is_told_without_the_number_that_the_system_has_for_it(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("sys.argv", ["ingestor", "init", str(tmp_path / path)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 4
    said = capsys.readouterr().err
    assert "Errno" not in said
    assert str(tmp_path / path) in said
