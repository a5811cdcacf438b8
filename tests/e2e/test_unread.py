"""What commands say of documents that nothing was read of, or not all."""

import json

from tests.e2e.in_process import Ask, plan_of
from tests.e2e.project import Project
from tests.parsers.files import pdf

PICTURE = b"\x89PNG\r\n\x1a\n\x00"


def test_what_no_parser_reads_is_counted_by_kind_and_is_no_failure(synced: Project, ask: Ask) -> None:
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
    assert ask("plan").code == 0
    assert plan_of(ask)["skipped"] == planned["skipped"] == status["skipped"]


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
    assert "no documents to retry" in ask("retry", "--all").out
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
