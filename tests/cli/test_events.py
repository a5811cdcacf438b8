"""Every line of the log in JSON is an object with its event."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.project import Project


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


SPEAKS = """
import logging, threading, warnings
from ingestor.cli.log import set_up
from ingestor.cli.usage import fail
set_up("info", "json")
warnings.warn("old")
logging.getLogger("chromadb.telemetry").error("two\\nlines")
logging.getLogger("ingestor").info("plain")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
{end}
"""


def test_json_log_holds_warnings_libraries_threads_and_the_end() -> None:
    for end, last in (("fail('wrong', 2)", "wrong"), ("raise ValueError('bad')", "unexpected error: bad")):
        done = subprocess.run(
            [sys.executable, "-c", SPEAKS.replace("{end}", end)], capture_output=True, text=True, check=False
        )
        found = objects(done.stderr)
        assert [each["event"] for each in found] == ["library", "library", "message", "ended", "ended"]
        assert "old" in str(found[0]["message"])
        assert found[1]["logger"] == "chromadb.telemetry"
        assert "ZeroDivisionError" in str(found[3]["trace"])
        assert found[4]["message"] == last
        assert done.returncode != 0


def test_json_log_of_a_sync_has_an_object_a_line_with_sources_and_counts(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", {"log": {"format": "json"}})
    (project.docs / "a.md").write_text("# A\n\nA lantern.\n")
    (project.docs / "b.pdf").write_bytes(b"%PDF-1.4 cut off")
    lines = {str(each["event"]): each for each in objects(project.call("sync").stderr)}
    assert lines["documents_written"].items() >= {
        "source": "docs", "collection": "docs", "document": "a.md", "documents": 1, "records": 1,
    }.items()  # fmt: skip
    assert lines["document_quarantined"].items() >= {"source": "docs", "document": "b.pdf"}.items()
    assert lines["document_quarantined"]["reason"]
