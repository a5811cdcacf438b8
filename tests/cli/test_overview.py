"""What a status says to somebody who was woken by it."""

import time
from pathlib import Path

import pytest

from ingestor.app.status import CollectionStatus, FailedDocument, SourceStatus, Status
from ingestor.cli.invocation import DEFAULT_CONFIG
from ingestor.cli.output.overview import show_status
from ingestor.state.queries.reports import Skipped


def said(status: Status, capsys: pytest.CaptureFixture[str], config: Path = DEFAULT_CONFIG) -> str:
    show_status(status, False, config)
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ingestor"])
    monkeypatch.setattr(time, "time", lambda: NOW)


NOW = 1_800_000_000.0


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
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
        "source   settled   due   waiting   in flight   quarantined   last scan",
        "docs       1,200     0         0           0             0   12 s ago",
        "",
        "collection   records   strategy      model    in Chroma",
        "docs           9,000   changepoint   MiniLM   healthy",
        "",
        "embedded by this run: 9,000 texts, 1,350,000 tokens, cost 27, at 14.2 texts/s, 2,130 tokens/s",
    ]


def test_a_service_port_that_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(running=True, no_service="127.0.0.1:8001 is taken by another program")
    assert "service port: none (127.0.0.1:8001 is taken by another program)" in said(status, capsys)


def test_it_does_not_run_and_there_is_work(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(
        sources={"docs": SourceStatus(due=2, last_scan=NOW)}, collections={"docs": CollectionStatus()}
    )
    head, then, *_ = said(status, capsys, Path("my.yaml")).splitlines()
    assert head == "not running; 2 documents to do"
    assert then == "To do it: ingestor run --config my.yaml, or once: ingestor sync --config my.yaml"


def test_what_was_embedded_and_what_is_guarded_stand_below_the_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = [Skipped("docs", ".png", 1, "looks like an image")]
    status = Status(guard="host and origin checks", isolation="landlock", skipped=skipped)
    assert said(status, capsys).partition("in Chroma\n")[2].splitlines() == [
        "",
        "Chroma's port: host and origin checks",
        "isolation: landlock",
        "",
        "1 document skipped, because no parser reads them:",
        "    docs: 1 .png, looks like an image",
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status(sources={"a": SourceStatus(held="3 of 4 vanished")}), "source a is held: 3 of 4 vanished"),
        (Status(sources={"a": SourceStatus(trouble="no permission")}), "source a: no permission"),
        (
            Status(sources={"a": SourceStatus(paused=NOW - 600)}),
            "source a has been paused for 10 min; to go on: ingestor resume a",
        ),
        (
            Status(collections={"a": CollectionStatus(old_until=NOW + 1200)}),
            "state before the last change is kept for another 20 min; to return to it: ingestor rollback a",
        ),
        (
            Status(collections={"a": CollectionStatus(old_until=NOW + 1200, old_undone=True)}),
            "its state before the last rollback is kept for another 20 min; to return to it: ingestor roll",
        ),
        (Status(sources={"a": SourceStatus(configured=False)}), "source a is no longer in the config"),
        (
            Status(collections={n: CollectionStatus(1, False, "no answer") for n in ("one", "two")}),
            "collection one, two: no answer",
        ),
        (
            Status(sources={"a": SourceStatus(quarantined=1, last_scan=NOW)}),
            "not running; 1 document quarantined",
        ),
    ],
)
def test_trouble_is_said_before_the_figures(
    status: Status, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in said(status, capsys).partition("source   settled")[0]


@pytest.mark.parametrize(
    ("attempts", "next_try", "outlook"),
    [
        (1, None, "quarantined until the file or the config changes: locked"),
        (1, NOW + 40, "1 failed try, the next in 40 s"),
        (3, NOW + 300, "3 failed tries, the next in 5 min"),
        (0, 0.0, "retried at the next pass; last time: locked"),
    ],
)
def test_a_failure_says_what_happens_next(
    attempts: int, next_try: float | None, outlook: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = FailedDocument("docs", "a\n.md", "locked", attempts, next_try, next_try is None)
    shown = said(Status(failures=[failed]), capsys).splitlines()
    assert shown[-4:-2] == ["1 document failed:", "docs: a\\n.md"]
    assert shown[-2].startswith(f"    {outlook}")
    assert shown[-1] == "To retry at once: ingestor retry --all"
