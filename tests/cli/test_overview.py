"""What a status says to somebody who was woken by it."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.cli.output.overview import show_status
from ingestor.cli.usage import CONFIG
from ingestor.queries.status import CollectionStatus, SourceStatus, Status
from ingestor.state.reports import Skipped


def said(
    status: Status, capsys: pytest.CaptureFixture[str], config: Path = CONFIG, *, verbose: bool = False
) -> str:
    show_status(status, False, config, verbose=verbose)
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ingestor"])
    monkeypatch.setattr(time, "time", lambda: NOW)


NOW = 1_800_000_000.0


def test_status_of_healthy_daemon_has_no_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(
        running=True,
        started=NOW - 7200,
        chroma="http://127.0.0.1:8000",
        sources={"docs": SourceStatus(settled=1200, last_scan=NOW - 12)},
        collections={"docs": CollectionStatus(9000, True, strategy="changepoint", model="MiniLM")},
        embedded_texts=9000,
        embedded_tokens=1_350_000,
        embedding_cost=27.0,
        texts_per_second=14.2,
        tokens_per_second=2130.0,
    )
    assert said(status, capsys).splitlines() == [
        "running for 2.0 h; nothing to do; Chroma at http://127.0.0.1:8000",
        "",
        "source   settled   due   waiting   quarantined   last scan",
        "docs       1,200     0         0             0   12 s ago",
        "",
        "collection   records   strategy      model    in Chroma",
        "docs           9,000   changepoint   MiniLM   healthy",
        "",
        "embedded by this run: 9,000 texts, 1,350,000 tokens, cost 27, at 14.2 texts/s, 2,130 tokens/s",
    ]


def test_status_without_service_port_names_reason(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(running=True, no_service="127.0.0.1:8001 is taken by another program")
    assert "service port: none (127.0.0.1:8001 is taken by another program)" in said(status, capsys)


def test_status_of_stopped_daemon_with_work_names_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(
        sources={"docs": SourceStatus(due=2, last_scan=NOW)}, collections={"docs": CollectionStatus()}
    )
    head, then, *_ = said(status, capsys, Path("my.yaml")).splitlines()
    assert head == "not running; 2 documents to do"
    assert then == "To do it: ingestor run --config my.yaml, or once: ingestor sync --config my.yaml"


def test_status_shows_embedding_and_guard_below_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = (Skipped("docs", ".png", 1, "looks like an image"),)
    status = Status(guard="host and origin checks", isolation="landlock", skipped=skipped)
    below = ["", "1 document skipped, because no parser reads them:", "    docs: 1 .png, looks like an image"]
    guard = ["", "Chroma's port: host and origin checks"]
    for isolation, verbose, shown in (
        ("landlock, seccomp", False, []),
        ("landlock, seccomp", True, ["isolation: landlock, seccomp"]),
        (
            "seccomp, without landlock (no kernel support)",
            False,
            ["isolation: seccomp, without landlock (no kernel support)"],
        ),
    ):
        status = replace(status, isolation=isolation)
        text = said(status, capsys, verbose=verbose)
        told = [*(guard[1:] if verbose else []), *shown]
        assert text.partition("in Chroma\n")[2].splitlines() == [*([""] if told else []), *told, *below]
        assert "in flight" not in text
