"""Events of the log: every call names one, docs/log.md explains each, and every line is an object."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from ingestor.core.events import Event
from tests.e2e.project import INGESTOR, Project
from tests.program import ROOT, modules

LOGGING = ("debug", "info", "warning", "error", "exception", "critical", "log")
LONGEST = 100  # characters of a line without its time, level and values


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """List all calls of loggers with their place, but for those of connectors, which name no events."""
    found = list[tuple[str, ast.Call]]()
    for file, tree in modules().items():
        for node in ast.walk(tree) if not file.is_relative_to("ingestor/connectors") else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LOGGING
            ):
                owner = ast.unparse(node.func.value)
                if owner in ("log", "_log") or "getLogger" in owner:
                    found.append((f"{file}:{node.lineno}", node))
    return found


def test_every_log_call_has_an_event() -> None:
    missing = [place for place, call in calls() if "extra" not in {each.arg for each in call.keywords}]
    assert missing == []
    assert len(calls()) > 60


def messages() -> Iterator[tuple[str, ast.expr]]:
    """Yield arguments of log calls, and what is named ``words`` before such a call."""
    for place, call in calls():
        yield from ((place, each) for each in call.args)
    for file, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and "words" in map(ast.unparse, node.targets):
                yield f"{file}:{node.lineno}", node.value


def test_messages_without_their_values_fit_a_line() -> None:
    texts = {
        place: re.sub(r"%[\w.]+", "", each.value)
        for place, each in messages()
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    assert {place: text for place, text in texts.items() if len(text) >= LONGEST} == {}


def test_docs_explain_exactly_the_events() -> None:
    rows = [
        line.split("|")[1] for line in (ROOT / "docs/log.md").read_text().splitlines() if line[:3] == "| `"
    ]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(get_args(Event))


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
    done = subprocess.run(
        [INGESTOR, "sync", "--config", str(project.config)],
        capture_output=True, text=True, check=False, env=dict(os.environ), timeout=240,
    )  # fmt: skip
    lines = {str(each["event"]): each for each in objects(done.stderr)}
    assert lines["documents_written"].items() >= {
        "source": "docs", "collection": "docs", "document": "a.md", "documents": 1, "records": 1,
    }.items()  # fmt: skip
    assert lines["document_quarantined"].items() >= {"source": "docs", "document": "b.pdf"}.items()
    assert lines["document_quarantined"]["reason"]
