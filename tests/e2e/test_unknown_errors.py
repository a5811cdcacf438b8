"""Errors of no known kind: documents keep their records, are tried again, and the user is told."""

import pytest

from ingestor.app import daemon
from ingestor.chroma import index
from ingestor.embedders.hashing import HashingEmbedder
from tests.e2e.in_process import Ask
from tests.e2e.project import Project


def fail(*args: object) -> None:
    raise RuntimeError("CUDA out of memory")


def test_an_error_of_no_known_kind_withdraws_nothing(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        (project.docs / f"{number}.txt").write_text(f"Document {number}.")
    assert ask("sync").code == 0
    for number in range(10):
        (project.docs / f"{number}.txt").write_text(f"Document {number}, edited.")
    with monkeypatch.context() as broken:
        broken.setattr(HashingEmbedder, "embed", fail)
        broken.setattr(daemon, "PATIENCE", 1.0)
        failed = ask("sync")
    assert failed.code == 4
    assert failed.err.count("Traceback") == 1, "one of ten like it"
    assert "keeps its records and will be retried: RuntimeError: CUDA out of memory" in failed.err
    status = project.json("status", code=None)
    assert status["collections"]["docs"]["records"] == 10
    assert {failure["quarantined"] for failure in status["failures"]} == {False}
    assert len(project.records()) == 10
    assert ask("sync").code == 0
    assert project.essence() == project.fresh().essence()


@pytest.mark.slow
def test_a_document_that_chroma_can_not_take_leaves_nothing_in_doubt(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (project.docs / f"{number}.txt").write_text(f"Document {number}.")
    assert ask("sync").code == 0
    (project.docs / "0.txt").write_text("Many words. " * 500)
    (project.docs / "1.txt").write_text("Document 1, edited.")
    project.settings |= {"chunking": {"strategy": "recursive", "size": 2000}, "rechunk": "in_place"}
    project.configure()
    with monkeypatch.context() as small:
        small.setattr(index, "_MOST_BYTES", 5000)
        refused = ask("sync")
    assert refused.code == 3
    (failure,) = project.json("status", code=None)["failures"]
    assert failure["document"] == "0.txt"
    assert "cut the document into smaller chunks" in failure["reason"]
    assert len(project.records()) == 2
    assert project.json("verify", code=None)["stale"] == 0
    assert project.call("retry", "--all").returncode == 0
    assert ask("sync").code == 0
    assert project.json("verify")["checked"] == 3
