"""Mistakes and mishaps outside: each gets a clear message, nothing is lost, and the rest goes on."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from ingestor.state.journal import Journal
from tests.chroma.quota_proxy import Cloud, cloud_before
from tests.e2e.in_process import Answer, Ask, answered, plan_of
from tests.e2e.project import Project, long_document, running
from tests.parsers.files import pdf
from tests.serving import HOST, answering, shared_server
from tests.small_disk import fill, small_disk
from tests.waiting import wait


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
    "garbage as journal": (garbage_as_journal, "sync", 4, ("journal.sqlite3", "damaged", "backup", "adopt")),
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


@pytest.mark.usefixtures("embedded")
def test_sudden_loss_is_held_until_it_is_accepted(project: Project, ask: Ask) -> None:
    for n in range(12):
        (project.docs / f"{n}.txt").write_text(f"Document {n} tells of the number {n * n}.")
    assert ask("sync").code == 0
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


def test_chroma_elsewhere_that_is_down_is_a_failure_though_nothing_changed(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.docs / "a.md").write_text("# A\n\nA house.\n")
    ask("sync")
    monkeypatch.setattr("ingestor.app.daemon.PATIENCE", 0.1)
    monkeypatch.setattr("ingestor.chroma.client.BROKEN", 0)  # retries
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
    assert f"{port} is not Chroma: check `chroma.host`, `port` and `ssl` in the config" in told.err


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


# --- Full disks, limits of memory, and quotas of the server ---


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


FIRST, THEN = 2, 12  # documents before the disk is full, and meanwhile


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("which", "megabytes", "message"),
    [
        ("chroma", 110, "collection docs: write failed, will retry: the disk of"),
        ("state", 8, "state folder"),
    ],
)
def test_full_disk_is_waited_out(
    project: Project, tmp_path: Path, which: str, megabytes: int, message: str
) -> None:
    def add(documents: range) -> None:
        for n in documents:
            (project.docs / f"{n}.txt").write_text(long_document(100, n))

    add(range(FIRST))
    with small_disk(tmp_path / "disk", megabytes) as disk:
        chroma = {"path": str(disk / "chroma"), "port": project.port}
        project.settings = {"chroma": chroma} if which == "chroma" else {"state": str(disk / "state")}
        project.configure()
        with running(project) as daemon:
            wait(lambda: project.settled(FIRST))
            add(range(FIRST, FIRST + THEN))
            ballast = fill(disk)
            wait(lambda: message in daemon.said())
            full = project.json("status")
            assert full["running"]
            assert full["sources"]["docs"]["settled"] < FIRST + THEN
            if which == "chroma":
                assert "MB left" in full["collections"]["docs"]["reason"]
            assert daemon.process.poll() is None

            ballast.unlink()
            wait(lambda: project.settled(FIRST + THEN), seconds=100)
            end = project.json("status")
            assert end["collections"]["docs"]["healthy"]
            assert end["embedded_texts"] == end["collections"]["docs"]["records"], "embedded once each"
            said = daemon.said()
            assert said.count(message) <= 3, "not at every try"
            assert "resume" in said.split(message)[-1]
            assert "Traceback" not in said
            assert daemon.stop() == 0
        assert project.json("verify")["checked"] == end["collections"]["docs"]["records"]


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
