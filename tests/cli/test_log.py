import io
import json
import logging
import sys

import pytest
from pydantic import SecretStr

from ingestor.cli.log import set_up

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
