"""Lines of the log, as text and as JSON."""

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from ingestor.cli.log import set_up
from tests.e2e.project import Project

LOG = logging.getLogger("ingestor.test")


def said(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("message", "extra", "line"),
    [
        ("settled", {}, "settled"),
        ("settled", {"document": "a.md", "seconds": 0.5}, "settled document=a.md seconds=0.5"),
        ("settled", {"document": "my notes.md"}, 'settled document="my notes.md"'),
        ("settled", {"document": 'a"b=c'}, 'settled document="a\\"b=c"'),
        ("settled", {"document": ""}, 'settled document=""'),
        (
            "settled",
            {"document": "x\n2026-01-01 ERROR forged"},
            'settled document="x\\n2026-01-01 ERROR forged"',
        ),
        ("read x\n2026-01-01 ERROR forged", {}, "read x\n    2026-01-01 ERROR forged"),
        ("read \x1b[31mred\r", {}, "read \\u001b[31mred\\u000d"),
        ("read \udcff", {}, "read \\udcff"),
        ("token", {"token": SecretStr("s3cret")}, "token token=**********"),
    ],
)
def test_text_line_has_time_level_message_and_fields(
    message: str, extra: dict[str, object], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up("info", "text")
    LOG.warning("%s", message, extra=extra)
    date, time, level, rest = said(capsys).split(maxsplit=3)
    assert (len(date), len(time), level) == (10, 8, "WARNING")
    assert rest == line + "\n"


def test_json_log_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("debug", "json")
    LOG.debug("two\nlines \x1b \udcff \u2028", extra={"document": "a\nb", "token": SecretStr("s3cret")})
    try:
        raise ValueError("broken")
    except ValueError:
        LOG.exception("failed")
    err = said(capsys)
    first, second = (json.loads(line) for line in err.splitlines())
    assert first["level"] == "debug" and first["message"] == "two\nlines \x1b \udcff \u2028"
    assert first["document"] == "a\nb" and first["at"].endswith("+00:00")
    assert "ValueError: broken" in second["trace"]
    assert "s3cret" not in err


def test_traceback_is_indented_under_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "text")
    try:
        raise ValueError("broken")
    except ValueError:
        LOG.exception("failed")
    first, *rest = said(capsys).splitlines()
    assert first.endswith("ERROR   failed")
    assert rest[-1] == "    ValueError: broken" and all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize(("level", "heard"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_log_level_decides_what_is_heard(level: str, heard: int, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(level, "text")
    for say in (LOG.debug, LOG.info, LOG.warning, LOG.error):
        say("x")
    assert len(said(capsys).splitlines()) == heard


def test_libraries_log_failures_only(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "text")
    logging.getLogger("httpx").info("HTTP Request: POST ...")
    logging.getLogger("chromadb.telemetry").warning("telemetry")
    assert said(capsys) == ""
    set_up("debug", "text")
    logging.getLogger("httpx").debug("headers")
    logging.getLogger("urllib3").warning("retrying")
    assert said(capsys).split(maxsplit=3)[3] == "retrying\n"


def test_log_set_up_twice_writes_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "text")
    set_up("info", "json")
    LOG.info("once")
    assert [json.loads(line)["message"] for line in said(capsys).splitlines()] == ["once"]


def test_log_follows_standard_error_and_survives_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up("info", "text")
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)
    LOG.info("heard")
    assert later.getvalue().endswith("heard\n")
    later.close()
    LOG.info("unheard")


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
