"""Commands that only look: their output when something is wrong, unfinished or cannot be seen."""

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingestor.app import daemon
from ingestor.app.parts import Parts
from ingestor.app.wiring import open_state
from ingestor.cli.main import main
from ingestor.config.file import load
from ingestor.config.models import ConfigError
from ingestor.connectors.folder.connector import Folder
from ingestor.llm.answers import DryRunAnswers
from ingestor.model import Blob, Item
from ingestor.ports import Transient
from ingestor.queries import access, needs
from ingestor.queries.changes import outlook
from ingestor.queries.plan import Recorder, Rehearsal, look_alikes
from ingestor.state.journal import Journal
from ingestor.state.run_status import CONFIG_NAME, in_force, keep_config
from tests.e2e.in_process import Answer, Ask, answered, plan_of
from tests.e2e.project import Project, in_chroma

pytestmark = pytest.mark.usefixtures("embedded")
SAMPLES = Path(__file__).parents[2] / "documents"


def serve(project: Project) -> None:
    """Let others ask Chroma beside the program."""
    del project.settings["chroma"]
    project.configure()


# --- plan ---


def test_plan_sees_what_chroma_lost(synced: Project, ask: Ask) -> None:
    assert ask("plan").code == 0
    in_chroma(synced.folder / "chroma", "docs", "collection.delete(collection.get()['ids'][:1])")
    less = ask("plan")
    assert less.code == 4
    assert "collection docs: Chroma holds 1 record and the journal 2" in less.out
    shutil.rmtree(synced.folder / "chroma")
    gone = ask("plan")
    assert gone.code == 4
    assert "collection docs: missing" in gone.out
    assert "Nothing to do" not in less.out + gone.out
    assert not (synced.folder / "chroma").exists(), "plan must touch nothing"


def test_plan_without_a_listed_source_names_each_and_shows_no_table(project: Project, ask: Ask) -> None:
    folder = {"kind": "folder", "collection": "docs"}
    project.settings["sources"] = [{"name": name, "path": name, **folder} for name in ("one", "two")]
    project.configure()
    answer = ask("plan")
    assert answer.code == 4
    assert answer.out.startswith("No source could be examined, so there is nothing to plan:\nsource one: ")
    assert "source two: " in answer.out
    assert "unchanged" not in answer.out and "Nothing to do" not in answer.out
    assert answered(ask("plan", "--json"), 4)["unseen"].keys() == {"one", "two"}


def test_source_that_fails_as_nobody_foresaw_hides_no_other(
    synced: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (synced.folder / "broken").mkdir()
    sources = [
        {"name": name, "kind": "folder", "path": name, "collection": "docs"} for name in ("broken", "docs")
    ]
    synced.settings["sources"] = sources
    synced.configure()
    (synced.docs / "new.txt").write_text("new words")
    scan = Folder.scan

    def failing(self: Folder) -> Iterator[Item]:
        if self._options.path.name == "broken":
            raise ModuleNotFoundError("No module named 'x'")
        return scan(self)

    monkeypatch.setattr(Folder, "scan", failing)
    answer = ask("plan", "--json")
    assert answer.code == 4
    planned = json.loads(answer.out)
    assert planned["unseen"] == {"broken": "No module named 'x'"}
    assert planned["sources"]["docs"]["added"] == 1
    checked = ask("verify", "--json")
    assert json.loads(checked.out)["unseen"].keys() == {"broken"}


def test_verify_names_what_is_not_in_step(synced: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sorted(path.name for path in synced.docs.iterdir())[0]
    (synced.docs / kept).write_text("other words")
    fetch = Folder.fetch

    def failing(self: Folder, item: Item) -> Blob:
        if item.key == kept:
            raise Transient("no right")
        return fetch(self, item)

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "fetch", failing)
        broken.setattr(daemon, "PATIENCE", 0.5)
        assert ask("sync").code == 4
    (synced.docs / "new.txt").write_text("new words")
    found = answered(ask("verify", "--json"), 4)
    assert (found["unsettled"], found["running"]) == (2, False)
    assert found["examples"] == ["docs: unsettled: new.txt", f"docs: unsettled: {kept}: no right"]


def test_plan_finds_documents_that_moved_to_another_source(synced: Project, ask: Ask) -> None:
    folder = {"kind": "folder", "settle": "0s", "collection": "docs"}
    paths = {"docs": "./docs", "other": "./other"}
    synced.settings = {"sources": [{"name": name, "path": path, **folder} for name, path in paths.items()]}
    synced.configure()
    (synced.folder / "other").mkdir()
    (synced.docs / "a.txt").rename(synced.folder / "other" / "a.txt")
    planned = plan_of(ask)
    assert (planned["documents"]["moved"], planned["documents"]["added"]) == (1, 0)
    assert (planned["documents"]["removed"], planned["embed"]["texts"]) == (0, 0)
    synced_now = answered(ask("sync", "--json"))
    assert synced_now["documents"]["moved"] == 1
    assert synced_now["documents"]["removed"] == 0


def test_plan_announces_the_approval_that_a_sync_needs(project: Project, ask: Ask) -> None:
    for number in range(30):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    assert ask("sync").code == 0
    for number in range(29):
        (project.docs / f"{number}.txt").unlink()
    answer = ask("plan", "--json")
    assert answer.code == 4
    planned = json.loads(answer.out)
    assert planned["documents"]["removed"] == 0
    assert "a sync would remove nothing until `ingestor accept docs`" in planned["unseen"]["docs"]


def test_plan_of_a_rebuild_names_the_hold_for_what_an_edition_without_its_model_loses(
    project: Project, ask: Ask
) -> None:
    """New documents do not reach the old edition, so they make up for no loss of it."""
    for number in range(30):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    assert ask("sync").code == 0
    with sqlite3.connect(project.folder / "state" / "journal.sqlite3") as db:  # as another version made it
        [(choices,)] = db.execute("SELECT choices FROM collections")
        recipe = json.loads(choices)["embedding"]["recipe"]
        db.execute("UPDATE collections SET choices = ?", (choices.replace(recipe, "0" * len(recipe)),))
    for number in range(29):
        (project.docs / f"{number}.txt").rename(project.docs / f"new {number}.txt")
        (project.docs / f"new {number}.txt").write_text(f"other words of {number}")
    planned = answered(ask("plan", "--json"), 4)
    assert [change["swap"] for change in planned["changes"]] == [True]
    assert "a sync would remove nothing until `ingestor accept docs`" in planned["unseen"]["docs"]
    assert "29 of 30" in answered(ask("sync", "--json"), 4)["held"]["docs"]


def test_plan_beside_a_daemon_leaves_the_work_to_it_and_names_its_file(synced: Project, ask: Ask) -> None:
    serve(synced)
    (synced.docs / "c.txt").write_text("more words")
    assert "To do it: " in ask("plan").out
    other = synced.config.with_name("new.yaml")
    other.write_text(synced.config.read_text())
    config = load(synced.config, {})
    with open_state(config, serve=False):
        keep_config(config, 0.0)
        answer = ask("plan", "--config", str(other))
        same = ask("plan")
    last = " ".join(answer.out.split())
    assert f"The running ingestor follows {synced.config}, not {other}: to do it, put the change" in last
    assert "will do it" not in last
    assert same.out.splitlines()[-1] == "Nothing was changed. The running ingestor will do it."


@pytest.mark.slow
def test_first_plan_knows_about_how_many_records_come_out(tmp_path: Path) -> None:
    """A sync of the samples with the real model gave 175; with one vector for all texts, 80 were planned."""
    project = Project(tmp_path / "real", {"embedding": {}, "chunking": {}}, {"path": str(SAMPLES)})
    parts = Parts(load(project.config, {}))
    recorder = Recorder(None, parts.embedder_recipe, 384, look_alikes(384))
    journal, nobody = Journal(tmp_path / "journal"), DryRunAnswers(None, parts.tokens.counts)
    sources = [
        source
        for edition, change in outlook(parts, journal).items()
        for source in parts.sources(change.collection, edition, recorder, answers=nobody)
    ]
    plan = Rehearsal(journal, recorder, nobody, parts.tokens.counts)
    plan.run(sources)
    journal.close()
    assert 160 < plan.total.records["added"] < 190
    assert not plan.cuts_known


def test_show_names_the_other_documents_of_that_name(synced: Project, ask: Ask) -> None:
    other = synced.folder / "other"
    other.mkdir()
    (other / "a.txt").write_text("words of another source")
    folder = {"kind": "folder", "settle": "0s", "collection": "docs"}
    paths = {"docs": "./docs", "other": "./other"}
    synced.settings = {"sources": [{"name": name, "path": path, **folder} for name, path in paths.items()]}
    synced.configure()
    assert ask("sync").code == 0
    found = {one["source"]: one for one in answered(ask("ls", "--json")) if one["document"] == "a.txt"}
    answer = ask("show", "a.txt")
    assert (answer.code, "some words" in answer.out, "another" in answer.out) == (0, True, False)
    assert answer.err.startswith("source other also has a document of this name; to see it: ")
    assert f"show {found['other']['document_id']}" in answer.err
    answer = ask("show", found["other"]["document_id"], "--json")
    assert (json.loads(answer.out)["chunks"][0]["text"], answer.err) == ("words of another source", "")


def test_show_takes_a_unique_file_name_and_suggests_the_nearest(project: Project, ask: Ask) -> None:
    (project.docs / "guide").mkdir()
    (project.docs / "guide" / "glossary.md").write_text("A mill grinds flour.")
    for folder in ("a", "b"):
        (project.docs / folder).mkdir()
        (project.docs / folder / "faq.md").write_text(f"Questions of {folder}.")
    assert ask("sync").code == 0
    assert "grinds flour" in ask("show", "glossary.md").out
    misspelt = ask("show", "glosary.md")
    assert (misspelt.code, "did you mean 'guide/glossary.md'?" in misspelt.err) == (2, True), misspelt.err
    several = ask("show", "faq.md")
    assert several.code == 2
    assert "'faq.md' names 2 documents" in several.err and "'a/faq.md' or 'b/faq.md'" in several.err


def test_rollback_gives_back_the_records_and_names_the_next_step(synced: Project, ask: Ask) -> None:
    before = synced.essence()
    needed = answered(ask("plan", "--json"))["needs"]["chroma_memory"]
    synced.settings = {"rechunk": "swap", "chunking": {"strategy": "fixed", "size": 4}}
    synced.configure()
    planned = answered(ask("plan", "--json"))
    both = needed + needs.memory(planned["records"]["added"], 64)
    assert (needed, planned["needs"]["chroma_memory"]) == (needs.memory(2, 64), both)
    assert "those of old and new collections" in ask("plan").out
    assert ask("sync").code == 0
    after = synced.essence()
    assert after != before
    [kept] = [one["name"] for one in answered(ask("collections", "--json")) if one["role"] == "previous"]
    refused = ask("collections", "--delete", kept)
    assert (refused.code, "ingestor rollback" in refused.err) == (2, True)
    assert "the state before the last change is kept for another" in ask("status").out
    answer = ask("rollback")
    assert synced.essence() == before
    assert answer.out.startswith("rolled back docs. ")
    assert "config.yaml still has the change: revert it, or run: " in answer.out
    waits = "collection docs waits for apply: this change of the config was undone by `ingestor rollback`"
    told = ask("status").out
    assert waits in told
    assert "the state before the last change" not in told
    assert "the state before the last rollback is kept for another" in told
    again = ask("rollback")
    assert again.out.strip() == "undid the last rollback of docs"
    assert synced.essence() == after


def test_plan_omits_the_rate_of_few_texts(project: Project, ask: Ask) -> None:
    (project.docs / "a.txt").write_text("some words")
    few = plan_of(ask)
    assert (few["tokens_per_second"], few["seconds"]) == (None, None)
    assert "tokens/s" not in ask("plan").out
    (project.docs / "b.txt").write_text("\n\n".join(f"{n} " + "many words " * 4 for n in range(800)))
    assert plan_of(ask)["tokens_per_second"] > 0


# --- a config with an error ---


# An option, the state folder, no YAML.
MISTAKES = [("size: 60", "sized: 60"), ("state: ", "sate: "), ("sources:", "sources: ]")]


@pytest.mark.slow
def test_status_with_a_broken_config_shows_the_running_one(synced: Project, ask: Ask) -> None:
    serve(synced)
    good = synced.config.read_text()
    with open_state(load(synced.config, {}), serve=False):
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
    [
        ("http: false", "http: {port: 9}", "http"),
        pytest.param("state: ./state", "state: ./.ingestor", None, marks=pytest.mark.slow),
    ],
)
def test_status_shows_what_waits_for_a_restart(
    synced: Project, ask: Ask, right: str, wrong: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(synced)
    monkeypatch.setattr(access, "PATIENCE", 1.0)  # for Chroma, which a program of another state has
    good = synced.config.read_text()
    (synced.docs / "new.txt").write_text("some new words")
    changed = good.replace(right, wrong).replace("name: docs", "name: extra")
    assert changed != good
    if key is None:  # what runs is in the default folder
        good, changed, key = changed.replace("name: extra", "name: docs"), good, "state"
        synced.config.write_text(good)
    said = f"the config file differs in {key}, which takes effect at a restart"
    with open_state(load(synced.config, {}), serve=False):
        synced.config.write_text(changed)
        status = answered(ask("status", "--json"))
        assert said in status["config_error"]
        assert (status["config_restart"], status["running"]) == ([key], True)
        assert "extra" not in status["sources"], "of the config in force"
        assert f"{said}; until then the config of " in " ".join(ask("status").out.split())
        planned = " ".join(ask("plan").out.split())
        assert said.removeprefix("the ") in planned
        assert "will do it" not in planned
        # the plan of another state exits with 4: the program that runs has Chroma's folder
        assert json.loads(ask("plan", "--json").out)["restart"] == [key]
        synced.config.write_text(good + "# another comment\n")
        assert answered(ask("status", "--json"))["config_error"] is None
    synced.config.write_text(changed)
    assert answered(ask("status", "--json"))["config_error"] is None, "nothing runs"


def test_kept_config_holds_no_secret(synced: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "fifteen-elephants"
    monkeypatch.setenv("CHROMA_TOKEN", secret)
    synced.config.write_text(synced.config.read_text().replace("size: 60", "size: ${SIZE}"))
    with open_state(load(synced.config, {"SIZE": "61", "CHROMA_TOKEN": secret}), serve=False):
        kept = synced.folder / "state" / CONFIG_NAME
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert "${SIZE}" in kept.read_text()
        kept.chmod(0o666)  # anybody could have written it
        synced.config.write_text("nonsense")
        with pytest.raises(ConfigError, match=r"config.yaml"):
            in_force(synced.config, {"SIZE": "61"})


def test_commands_name_what_they_do_not_know_and_take_words_without_quotes(synced: Project, ask: Ask) -> None:
    for command, kind in (("accept", "source"), ("rollback", "collection")):
        answer = ask(command, "nope")
        assert (answer.code, answer.err) == (2, f"there is no {kind} 'nope'; known: docs\n")
    assert "is not held for a loss" in ask("accept", "docs").err
    answer = ask("rollback")
    assert (answer.code, "nothing to roll back for 'docs'" in answer.err) == (2, True)
    assert answer.err.endswith("a replaced collection is kept for 1 hour (rechunk.grace)\n")
    answer = ask("query", "words", "--mode", "sparse")
    assert (answer.code, "Value error" in answer.err) == (2, False)
    assert "Invalid value for '--mode': 'sparse' is not one of 'hybrid', 'dense', 'lexical'" in answer.err
    quoted, unquoted = ask("query", "how does it grind"), ask("query", "how", "does", "it", "grind")
    assert (quoted.code, quoted.out) == (0, unquoted.out)


# --- init ---
Init = Callable[..., Answer]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Answer:
        monkeypatch.setattr("sys.argv", ["ingestor", "init", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    return run


def test_init_of_a_folder_names_its_documents(init: Init, tmp_path: Path) -> None:
    notes = tmp_path / "my notes"
    notes.mkdir()
    answer = init("my notes")
    assert (answer.code, f"for the documents in {notes}" in answer.out) == (0, True)
    [source] = load(tmp_path / "config.yaml", {}).sources
    assert str(notes) in repr(source.connector.options)
    assert not (tmp_path / "documents").exists()


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("notez", 2, "notez is neither a folder nor"),
        ("no folder/where.yaml", 4, "there is no folder no folder; to make it: mkdir -p 'no folder'"),
        ("file/config.yaml", 4, "file/config.yaml"),
    ],
)
def test_init_of_a_missing_place_names_it_and_writes_nothing(
    init: Init, tmp_path: Path, path: str, code: int, words: str
) -> None:
    (tmp_path / "file").touch()
    answer = init(path)
    assert (answer.code, words in answer.err, "Errno" in answer.err) == (code, True, False), answer
    assert [each.name for each in tmp_path.iterdir() if each.name != "project"] == ["file"]
