"""The buttons of the pages do what the commands do, and say so once."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from ingestor.confinement.python_child import python_child
from ingestor.core.errors import kind_of
from ingestor.model import SourceName
from ingestor.page import changes as planning
from ingestor.page.changes import Planner
from ingestor.state.editions import Notices, Requests
from ingestor.state.sources import SourceRows
from tests.page.seen import Page
from tests.service.world import Daemon
from tests.waiting import wait

Press = Callable[..., Page]
DOCS = SourceName("docs")


@pytest.fixture
def press(client: httpx.Client) -> Press:
    def pressed(button: str, **fields: str) -> Page:
        """The page after the form was sent."""
        token = Page(client.get("/page/changes")).token()
        said = client.post(f"/page/{button}", data={"form_token": token, **fields})
        return Page(client.get(said.headers["location"]) if said.status_code == 303 else said)

    return pressed


def row(daemon: Daemon, key: str) -> tuple[object, ...]:
    return daemon.journal.select(
        "SELECT quarantined, attempts, retry_at FROM documents WHERE key = ?", (key,)
    )[0]


@pytest.fixture
def documents_as_before(daemon: Daemon) -> Iterator[None]:
    before = daemon.journal.select("SELECT * FROM documents ORDER BY id")
    yield
    with daemon.journal.transaction() as db:
        db.execute("DELETE FROM documents")
        db.executemany(f"INSERT INTO documents VALUES ({', '.join('?' * len(before[0]))})", before)


@pytest.mark.usefixtures("documents_as_before")
def test_retry_button_retries_one_document(press: Press, daemon: Daemon, client: httpx.Client) -> None:
    page = press("retry", document="bad", back="/page/documents/bad?from=0")
    assert "1 document will be retried now." in page.text
    assert page.texts["h1"][0] == "bad.pdf"
    assert row(daemon, "bad.pdf") == (0, 0, 0)
    assert row(daemon, "late.md")[1] == 2
    assert "will be retried" not in client.get("/page/documents/bad").text
    assert "No documents to retry." in press("retry", document="no such").text
    assert row(daemon, "late.md")[1] == 2, "an unknown document is not all of them"
    assert press("retry").status == 422
    assert "1 document will be retried now." in press("retry", document="").text
    assert row(daemon, "late.md")[1] == 0


@pytest.mark.usefixtures("documents_as_before")
def test_documents_that_failed_alike_are_retried_together(press: Press, daemon: Daemon) -> None:
    alike = json.dumps(["docs", "is damaged src=x onerror=alert"])
    kinds = {kind_of(str(one[0])) for one in daemon.journal.select("SELECT reason FROM documents")}
    assert json.loads(alike)[1] in kinds
    assert "1 document will be retried now." in press("retry", reason=alike).text
    assert row(daemon, "bad.pdf") == (0, 0, 0)
    assert row(daemon, "late.md")[1] == 2, "another reason"
    assert "No documents to retry." in press("retry", reason=json.dumps(["other", "is damaged"])).text
    for wrong in ("", "[1]", "[" * 3000, '["docs"]', "null"):
        assert press("retry", reason=wrong).status == 422


def test_rollback_needs_a_former_collection_whose_button_is_shown(press: Press, daemon: Daemon) -> None:
    page = press("rollback", collection="docs")
    assert (page.status, "nothing to roll back" in page.text) == (409, True)
    assert press("rollback", collection="<b>").status == 409
    with daemon.journal.transaction() as db:
        db.execute(
            "INSERT INTO collections (name, serves, role, since, uuid)"
            " VALUES ('docs--1', 'docs', 'previous', 1.7e9, 'x')"
        )
    try:
        assert "Roll back" in press("resume", source="docs").texts["button"]
    finally:
        with daemon.journal.transaction() as db:
            db.execute("DELETE FROM collections WHERE name = 'docs--1'")


def test_source_is_paused_and_resumed(press: Press, daemon: Daemon) -> None:
    assert "docs is paused." in press("pause", source="docs").text
    assert SourceRows(daemon.journal).of(DOCS).paused is not None
    assert "Resume" in press("pause", source="docs").texts["button"]
    assert "docs is resumed." in press("resume", source="docs").text
    assert "docs was not paused." in press("resume", source="docs").text
    assert press("pause", source="<b>").status == 409


def test_accept_button_confirms_a_loss(press: Press, daemon: Daemon) -> None:
    assert press("accept", source="docs").status == 409
    SourceRows(daemon.journal).hold(DOCS, "9 of 10 documents are gone", loss=True)
    page = press("pause", source="docs")
    assert "9 of 10 documents are gone" in page.text
    assert "Accept the loss" in page.texts["button"]
    assert "The loss in docs is accepted" in press("accept", source="docs").text
    assert SourceRows(daemon.journal).of(DOCS).accepted
    with daemon.journal.transaction() as db:
        db.execute("UPDATE sources SET held = NULL, loss = 0, accepted = 0, paused = NULL")


@pytest.mark.parametrize(
    ("kept", "buttons"), [("more than 5 of 10 documents are unreadable", True), (None, False)]
)
def test_accept_button_is_there_if_a_loss_can_be_accepted(
    press: Press, daemon: Daemon, kept: str | None, buttons: bool
) -> None:
    if kept is None:
        SourceRows(daemon.journal).hold(DOCS, "the folder is on another disk")
    else:
        daemon.journal.write("INSERT INTO withdrawals (source, kept) VALUES (?, ?)", (DOCS, kept))
    page = press("resume", source="docs")
    assert (kept or "the folder is on another disk") in page.text
    assert ("Accept the loss" in page.texts["button"]) is buttons
    daemon.journal.write("DELETE FROM withdrawals")
    daemon.journal.write("UPDATE sources SET held = NULL")


def test_apply_button_applies_waiting_changes(press: Press, daemon: Daemon) -> None:
    assert "No change waits for approval." in press("apply").text
    assert Requests(daemon.journal).take_arrange()
    Notices(daemon.journal).put("waits", "docs", "it would take 3 hours <b>")
    page = press("resume", source="docs")
    assert "it would take 3 hours <b>" in page.text
    assert "Applied: docs:" in press("apply").text
    assert Requests(daemon.journal).get("approved", "docs")
    Notices(daemon.journal).put("waits", "docs", None)


@pytest.mark.slow
def test_plan_is_made_by_a_process_of_its_own(press: Press, client: httpx.Client) -> None:
    assert "Computing" in press("plan").text
    said = wait(lambda: "Made" in (text := client.get("/page/changes").text) and text)
    assert "Nothing to do" in said or "Nothing was changed" in said or "could not" in said, said


def test_second_plan_waits_for_the_first_and_ends_with_the_daemon() -> None:
    made = Planner(python_child("-c", "import time; time.sleep(600)"))
    made.begin()
    first, process = made.latest(), made._process
    made.begin()
    assert first is not None and first.text is None
    assert made.latest() == first
    made.close()
    assert process is not None and process.returncode is not None


@pytest.mark.parametrize(
    ("code", "bound", "value", "text"),
    [
        ("print('x' * 10_000_000)", "LONGEST", 1000, "x" * 1000),
        (
            "import time; time.sleep(600)", "PATIENCE", 0.0,
            "The plan could not be made: `ingestor plan` printed nothing.",
        ),
    ],
)  # fmt: skip
def test_output_and_time_of_a_plan_are_bounded(
    monkeypatch: pytest.MonkeyPatch, code: str, bound: str, value: float, text: str
) -> None:
    monkeypatch.setattr(planning, bound, value)
    made = Planner(python_child("-c", code))
    made.begin()
    assert wait(lambda: (found := made.latest()) and found.text) == text
    made.close()


PLANNED = {
    "documents": {"added": 2, "changed": 0, "moved": 1, "unchanged": 5, "unsupported": 0},
    "sources": {"<docs>": {"added": 2, "changed": 0, "moved": 1, "removed": 0, "unchanged": 5}},
    "records": {"added": 4, "patched": 0},
    "cuts_known": False,
    "embed": {"texts": 1234, "tokens": 5, "exact": True},
    "ask": {"calls": 0},
    "changes": [
        {
            "collection": "docs", "changes": [{"source": "", "key": "target", "before": "1", "after": "2"}],
            "metadata": None, "swap": True, "waits": "too dear",
        }
    ],
    "renamed": {}, "leaving": ["old"], "seconds": 90.0, "cost": 0.0, "disk": 0,
    "problems": [{"document": "a.pdf", "reason": "is <torn>"}],
}  # fmt: skip


def test_plan_is_a_table_and_other_output_is_shown_unchanged(
    press: Press, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = planning.ShownPlan(1.0, 2.0, "", json.loads(json.dumps(PLANNED)))
    monkeypatch.setattr(Planner, "latest", lambda self: found)
    page = Page(client.get("/page/changes"))
    shown = ("<docs>", "Moved", "about 4", "1,234", "target: 1 → 2", "too dear", "a.pdf: is <torn>", "old")
    assert [words for words in shown if words not in page.text] == []
    assert "Unsupported" not in page.text
    monkeypatch.setattr(
        Planner, "latest", lambda self: planning.ShownPlan(1.0, 2.0, "config.yaml:3: <wrong>")
    )
    assert "config.yaml:3: <wrong>" in Page(client.get("/page/changes")).text


def test_history_is_shown_under_changes_and_with_its_document(client: httpx.Client, daemon: Daemon) -> None:
    with daemon.journal.transaction() as db:
        db.execute(
            "INSERT INTO history (what, source, document, document_id, why) VALUES "
            "('moved', 'docs', 'bad.pdf', 'bad', 'it was <old>.pdf')"
        )
        db.execute("INSERT INTO history (what, why) VALUES ('refused', 'line 3')")
    for address, there in (("/page/changes", {"moved", "refused"}), ("/page/documents/bad", {"moved"})):
        text = client.get(address).text
        section = text[text.index('id="history-head"') :]
        assert {what for what in ("moved", "refused") if f">{what}</td>" in section} == there
        assert "it was &lt;old&gt;.pdf" in section
