"""Mistakes and mishaps outside: each gets a clear message, nothing is lost, the rest goes on."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import chromadb
import pytest

from ingestor.connectors.folder.connector import Folder
from ingestor.model import Blob, Item
from ingestor.state.journal import Journal
from tests.e2e.in_process import Answer, Ask, answered, plan_of
from tests.e2e.project import INGESTOR, Project
from tests.parsers.files import pdf
from tests.serving import answering, client_of, server


def assert_told(answer: Answer, code: int, *words: str) -> None:
    """The exit code is right, and a short message says all the words."""
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert 1 <= len([line for line in answer.err.splitlines() if line]) <= 3, answer.err
    for word in words:
        assert word in answer.err


def spoil(old: str, new: str) -> Callable[[Project], None]:
    def edit(project: Project) -> None:
        text = project.config.read_text()
        assert old in text
        project.config.write_text(text.replace(old, new))

    return edit


def journal(project: Project) -> Path:
    return project.folder / "state" / "journal.sqlite3"


def garbage_as_journal(project: Project) -> None:
    journal(project).write_bytes(b"garbage " * 1000)


def newer_journal(project: Project) -> None:
    book = Journal(journal(project))
    book._db.execute("PRAGMA user_version = 999")
    book.close()


def as_it_is(project: Project) -> None:
    pass


MISTAKES = {
    "no config": (lambda p: p.config.unlink(), "sync", 2, ("config.yaml", "does not exist", "ingestor init")),
    "a folder as config": (
        lambda p: (p.config.unlink(), p.config.mkdir()), "sync", 2, ("config.yaml", "irectory"),
    ),
    "unknown strategy": (
        spoil("recursive", "recursiv"), "run", 2, ("config.yaml:", "'recursiv'", "did you mean 'recursive'"),
    ),
    "unknown key": (spoil("settle:", "setle:"), "sync", 2, ("config.yaml:", "setle", "settle")),
    "unknown command": (as_it_is, "snyc", 2, ("snyc", "sync")),
    "no answers wanted": (as_it_is, "query words -n 0", 2, ("-n",)),
    "a filter that is no JSON": (as_it_is, "query words --where {page:3}", 2, ("--where", "JSON object")),
    "no documents to retry": (as_it_is, "retry", 2, ("--all",)),
    "unknown document": (as_it_is, "retry nope.txt", 2, ("nope.txt", "ingestor ls")),
    "unknown source": (as_it_is, "ls --source nope", 2, ("nope", "known")),
    "accepted without need": (as_it_is, "accept docs", 2, ("docs", "not held", "ingestor status")),
    "nothing ingested yet": (lambda p: journal(p).unlink(), "verify", 4, ("state", "ingestor sync")),
    "garbage as journal": (garbage_as_journal, "sync", 4, ("journal.sqlite3", "damaged", "backup", "delete")),
    "garbage as journal, looked at": (garbage_as_journal, "status", 4, ("journal.sqlite3", "damaged")),
    "a newer journal": (newer_journal, "sync", 4, ("format 999", "install a newer ingestor")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_reported_in_few_words(project: Project, ask: Ask, name: str) -> None:
    make, words, code, message = MISTAKES[name]
    journal(project).parent.mkdir()
    Journal(journal(project)).close()
    make(project)
    assert_told(ask(*words.split()), code, *message)


def test_port_that_is_taken_is_reported_with_who_has_it(project: Project, ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", project.port)):
        assert_told(ask("run"), 4, str(project.port), "taken", str(os.getpid()), "chroma.port")


def odd_names(docs: Path) -> list[str]:
    """Files with names that some program chokes on; returns how ``ls`` shows them."""
    (docs / "new\nline.txt").write_text("a name of two lines")
    (docs / "red\x1b[31m.txt").write_text("a name that steers a terminal")
    (docs / "[red]markup.txt").write_text("a name with markup")
    (docs / "emoji 😀 名前.txt").write_text("a name in other scripts")
    (docs / ("x" * 251 + ".txt")).write_text("the longest name")
    with open(os.fsencode(docs) + b"/bad\xff.txt", "w") as file:
        file.write("a name that is not UTF-8")
    return [
        *("new\\nline.txt", "red\\u001b[31m.txt", "[red]markup.txt", "emoji 😀 名前.txt"),
        *("x" * 251 + ".txt", r"bad\xFF.txt"),
    ]


def odd_contents(docs: Path) -> list[str]:
    """Files that hold nothing to index, or something odd: none of them is a failure."""
    (docs / "empty.txt").touch()
    (docs / "blank.txt").write_text(" \n\n\t")
    (docs / "bom.txt").write_bytes(b"\xef\xbb\xbf")
    (docs / "bom16.txt").write_bytes(b"\xff\xfe")
    (docs / "surrogate.txt").write_bytes(b"a lone \xed\xa0\x80 one")
    return ["empty.txt", "blank.txt", "bom.txt", "bom16.txt", "surrogate.txt"]


def no_documents(project: Project) -> None:
    """What is in the folder and can't be read as a file."""
    docs, outside = project.docs, project.folder / "outside.txt"
    outside.write_text("not for readers of docs")
    (docs / "dangling.txt").symlink_to("nowhere.txt")
    (docs / "loop.txt").symlink_to("loop.txt")
    (docs / "out.txt").symlink_to(outside)
    os.mkfifo(docs / "fifo.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{os.open(docs, os.O_PATH)}/socket.txt")


BAD_FILES = {
    "random.bin": os.urandom(5000),
    "nul.txt": b"text\0with\0nuls" * 100,
    "picture.md": b"\x89PNG\r\n\x1a\n" + bytes(100),
}


@pytest.mark.usefixtures("embedded")
def test_odd_files_are_indexed_or_named_and_none_stops_the_rest(project: Project, ask: Ask) -> None:
    names = odd_names(project.docs) + odd_contents(project.docs)
    no_documents(project)
    for name, content in BAD_FILES.items():
        (project.docs / name).write_bytes(content)
    with (project.docs / "huge.txt").open("wb") as file:
        file.truncate(200_000_000)

    synced = ask("sync")
    assert synced.code == 3, synced
    assert "Traceback" not in synced.err
    assert "\x1b" not in synced.out + synced.err
    for name in ("dangling.txt", "loop.txt", "out.txt", "fifo.txt", "socket.txt"):
        assert any("left out" in line and name in line for line in synced.err.splitlines()), name
    assert "200,000,000 bytes are more than max_size (50,000,000): raise `max_size`, or exclude" in synced.out
    assert "skipped     1 .bin: no parser reads them" in synced.out
    for name in sorted(BAD_FILES.keys() - {"random.bin"}):
        assert f"{name}: looks like " in synced.out
        assert "exclude it, or convert it" in synced.out

    listed = ask("ls").out.splitlines()
    assert sorted(line.split(None, 3)[3] for line in listed) == sorted([*names, *BAD_FILES, "huge.txt"])
    assert answered(ask("verify", "--json"))["checked"] == 7  # six names and a surrogate


def fill(project: Project, ask: Ask, documents: int = 12) -> None:
    for n in range(documents):
        (project.docs / f"{n}.txt").write_text(f"Document {n} tells of the number {n * n}.")
    assert ask("sync").code == 0


@pytest.mark.usefixtures("embedded")
def test_lost_cache_does_no_harm(project: Project, ask: Ask) -> None:
    fill(project, ask)
    (project.folder / "state/cache.sqlite3").write_bytes(b"garbage " * 1000)
    (project.docs / "new.txt").write_text("something new")
    spared = ask("sync")
    assert (spared.code, "is damaged or not ingestor's: created anew" in spared.err) == (0, True), spared
    assert answered(ask("verify", "--json"))["checked"] == 13


@pytest.mark.usefixtures("embedded")
def test_stranger_s_collection_is_left_alone(project: Project, ask: Ask) -> None:
    with chromadb.PersistentClient(project.folder / "chroma") as client:
        client.create_collection("docs").add(["a"], documents=["a"], embeddings=[[1.0] * 64])
    (project.docs / "a.txt").write_text("words")
    refused = ask("sync")
    assert refused.code == 4
    assert "collection 'docs' holds 1 record that ingestor did not write" in refused.out
    assert [id_ for id_, *_ in project.records()] == ["a"]


@pytest.mark.usefixtures("embedded")
def test_sudden_loss_is_held_until_it_is_accepted(project: Project, ask: Ask) -> None:
    fill(project, ask)
    aside = project.folder / "aside"
    project.docs.rename(aside)
    missing = ask("sync")
    assert (missing.code, "docs is missing: create or mount it, or correct `path`" in missing.out) == (
        4,
        True,
    )
    assert_told(ask("accept", "docs"), 2, "not held for a loss")

    project.docs.mkdir()
    emptied = ask("sync")
    assert emptied.code == 4
    advice = "12 of 12 documents vanished at once (max_loss is 50%); nothing is removed"
    for said in (emptied.out, ask("status").out):
        assert advice in said.replace("\n", " ")
        assert "until `ingestor accept docs`" in said.replace("\n", " ")
    assert answered(ask("verify", "--json"), 4)["checked"] == 12

    project.docs.rmdir()
    aside.rename(project.docs)
    assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 12
    for path in project.docs.iterdir():
        path.unlink()
    assert ask("sync").code == 4
    assert ask("accept", "docs").code == 0
    assert answered(ask("sync", "--json"))["documents"]["removed"] == 12
    assert answered(ask("verify", "--json"))["checked"] == 0


def test_foreign_chroma_on_the_port_is_refused(project: Project, ask: Ask, tmp_path: Path) -> None:
    with server(tmp_path / "theirs", project.port) as theirs:
        told = ask("run")
        assert_told(told, 4, f"port {project.port} is taken by process {theirs.pid}", "chroma.port")
        with client_of(theirs) as client:
            assert [*client.collections()] == []


def test_chroma_elsewhere_that_is_down_is_a_failure_though_nothing_changed(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.docs / "a.md").write_text("# A\n\nA house.\n")
    ask("sync")
    monkeypatch.setattr("ingestor.app.daemon.PATIENCE", 1.0)
    project.settings["chroma"] = {"host": "127.0.0.1", "port": project.port}
    project.configure()
    done = answered(ask("sync", "--json"), 4)
    assert f"can't be reached at http://127.0.0.1:{project.port}" in done["unusable"]["docs"]
    assert done["documents"]["unchanged"] == 1


def test_other_server_at_chromas_address_is_reported(project: Project, ask: Ask) -> None:
    (project.docs / "a.txt").write_text("words")
    with answering(200, b"<html>welcome</html>") as (port, _):
        project.settings = {"chroma": {"host": "127.0.0.1", "port": port}}
        project.configure()
        told = ask("sync")
    assert told.code == 4, told
    assert "Traceback" not in told.err
    assert "the server at Chroma's address is not Chroma: check `chroma.host`, `port` and `ssl`" in told.err


@pytest.mark.usefixtures("embedded")
def test_files_changed_between_listing_and_reading_are_read_later(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, ask)
    for n in (3, 4):
        (project.docs / f"{n}.txt").write_text("Edited.")
    fetch, met = Folder.fetch, set[str]()

    def meanwhile(self: Folder, item: Item) -> Blob:
        if item.key not in met:
            met.add(item.key)
            path = project.docs / item.key
            path.unlink() if item.key == "3.txt" else path.write_text("Edited once more.")
        return fetch(self, item)

    monkeypatch.setattr(Folder, "fetch", meanwhile)
    done = answered(ask("sync", "--json"))
    assert met == {"3.txt", "4.txt"}
    assert done["documents"] | {"added": 0, "failed": 0, "quarantined": 0} == done["documents"]
    assert (done["documents"]["changed"], done["documents"]["removed"]) == (1, 1)
    assert answered(ask("verify", "--json"))["checked"] == 11
    assert "Edited once more." in ask("show", "4.txt").out


@pytest.mark.slow
def test_text_of_thirty_megabytes_takes_a_few_times_its_size(project: Project) -> None:
    """Beyond what the program takes for a small one."""
    project.settings = {"chunking": {"strategy": "recursive", "size": 2000}}
    project.configure()
    (project.docs / "a.txt").write_text("A few words.")
    usual = peak_memory(project, "sync")
    sentence = "The harbour lies still, and nothing in it moves before {}. "
    (project.docs / "large.txt").write_text("".join(map(sentence.format, range(520_000))))
    size = (project.docs / "large.txt").stat().st_size
    assert 30_000_000 < size < 50_000_000
    large = peak_memory(project, "sync")
    assert project.json("sync")["documents"]["unchanged"] == 2
    assert large - usual < 10 * size, (usual, large)


def peak_memory(project: Project, command: str) -> int:
    """Bytes of the process's largest resident set."""
    words = [str(INGESTOR), command, "--config", str(project.config)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.usefixtures("embedded")
def test_no_pattern_of_an_ignore_file_holds_up_the_program(project: Project) -> None:
    (project.docs / ".gitignore").write_text("*a*a*a*a*a*a*a*a*a*a*b\n")
    (project.docs / ("a" * 200)).write_text("words beside a pattern that took for ever")
    (project.docs / "plain.txt").write_text("plain words")
    project.json("sync")
    assert {Path(entry["document"]).name for entry in project.json("ls")} == {"a" * 200, "plain.txt"}


# --- Documents of which nothing was read, or not all ---
PICTURE = b"\x89PNG\r\n\x1a\n\x00"


@pytest.mark.usefixtures("embedded")
def test_unsupported_documents_are_counted_by_kind_and_are_no_failures(synced: Project, ask: Ask) -> None:
    for number in range(5):
        (synced.docs / f"{number}.png").write_bytes(PICTURE)
    (synced.docs / "backup.bin").write_bytes(b"\x00\x01\x02")
    planned = plan_of(ask)
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
    assert "no documents to retry" in ask("retry", "--all").out
    assert plan_of(ask)["skipped"] == planned["skipped"] == status["skipped"]
    said = ask("show", "0.png").out
    assert "unsupported: looks like an image" in said


@pytest.mark.usefixtures("embedded")
def test_document_whose_name_promises_a_parser_is_a_failure(synced: Project, ask: Ask) -> None:
    (synced.docs / "report.pdf").write_bytes(b"\x00\x01\x02")
    answer = ask("sync", "--json")
    assert answer.code == 3
    assert json.loads(answer.out)["documents"]["quarantined"] == 1
    assert ask("plan").code == 3  # of old ones, too
    [listed] = [one for one in json.loads(ask("ls", "--json").out) if one["document"] == "report.pdf"]
    shown = json.loads(ask("show", "report.pdf", "--json").out)
    assert (shown["state"], shown["reason"]) == ("quarantined", listed["reason"])
    (synced.docs / "report.pdf").write_bytes(PICTURE)  # still no PDF
    assert ask("sync").code == 3
    (synced.docs / "report.pdf").rename(synced.docs / "report.png")
    assert ask("sync").code == 0


# --- what is empty or incomplete ---------------------------------------------------------------------------


@pytest.mark.usefixtures("embedded")
def test_no_document_is_empty_in_silence(synced: Project, ask: Ask) -> None:
    (synced.docs / "scan.pdf").write_bytes(pdf([[], []]))
    (synced.docs / "half.pdf").write_bytes(pdf([[], [(50, 700, 10, "A sentence that can be read.")]]))
    (synced.docs / "nothing.txt").write_bytes(b"")
    (synced.docs / "nothing too.txt").write_bytes(b"\n")
    answer = ask("sync")
    assert answer.code == 0  # no documents to retry
    assert "empty       3 documents; why: ingestor status" in answer.out
    assert "incomplete  1 document; why: ingestor status" in answer.out
    documents = {d["document"]: d for d in json.loads(ask("ls", "--json").out)}
    assert documents["half.pdf"]["state"] == "incomplete"
    assert (documents["half.pdf"]["settled"], documents["half.pdf"]["records"]) == (True, 1)
    assert (documents["scan.pdf"]["state"], documents["scan.pdf"]["records"]) == ("empty", 0)
    assert "OCR would read them" in documents["scan.pdf"]["reason"]
    assert documents["nothing.txt"]["reason"] == "the document holds no text"
    status = json.loads(ask("status", "--json").out)
    source = status["sources"]["docs"]
    assert (source["empty"], source["incomplete"], source["due"], status["failures"]) == (3, 1, 0, [])
    assert source["settled"] == len(documents)
    assert [short["document"] for short in status["short"]] == [
        "half.pdf", "nothing too.txt", "nothing.txt", "scan.pdf",
    ]  # fmt: skip
    shown = ask("status").out
    assert "4 documents empty or incomplete:" in shown
    assert "docs: nothing too.txt and 1 more\n    empty: the document holds no text" in shown
    told = json.loads(ask("show", "half.pdf", "--json").out)
    assert (told["state"], "1 of 2 pages" in told["reason"]) == ("incomplete", True)
    (synced.docs / "scan.pdf").write_bytes(pdf([[(50, 700, 10, "Text at last.")]]))
    again = json.loads(ask("sync", "--json").out)["short"]
    assert again == [short for short in status["short"] if short["document"] != "scan.pdf"]
