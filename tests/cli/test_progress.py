"""How far the work is: one stretch of it at a time."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from ingestor.cli.output.progress import Bar, ProgressLines, busy, describe_work, greet
from ingestor.project import Ready
from ingestor.state.run_status import Live, Meter, RunningListing, SyncProgress


def live(at: float, waiting: int, done: int, texts: int) -> Live:
    return Live(at=at, waiting=waiting, tally={"added": done, "records_added": 99}, texts=texts)


def test_stretch_lasts_while_work_waits() -> None:
    readings = (
        live(100, 4, 0, 0),
        live(110, 1, 3, 50),
        live(112, 0, 4, 60),
        live(9000, 2, 4, 60),  # hours later
        live(9004, 0, 6, 70),
    )
    assert [*map(Meter().measure, readings)] == [
        SyncProgress(0, 4, 0, 0.0, at=100, records=99),
        SyncProgress(3, 1, 50, 10.0, at=110, records=99),
        SyncProgress(4, 0, 60, 12.0, at=112, records=99),
        SyncProgress(0, 2, 0, 0.0, at=9000),
        SyncProgress(2, 0, 10, 4.0, at=9004),
    ]


def lines_of(caplog: pytest.LogCaptureFixture, stretches: Iterable[Live]) -> list[str]:
    """Return the lines that the log has of a daemon's progress."""
    meter, show = Meter(), ProgressLines()
    with caplog.at_level("INFO", logger="ingestor"):
        for each in stretches:
            show(meter.measure(each))
    assert {one.__dict__["event"] for one in caplog.records} <= {"progress"}
    return caplog.messages


def test_documents_cut_again_are_not_counted_in_progress(caplog: pytest.LogCaptureFixture) -> None:
    seen = lines_of(
        caplog,
        [
            Live(at=100, waiting=6),
            Live(at=110, waiting=1, tally={"added": 5}),
            Live(at=112, tally={"added": 6, "recut": 4}),
            Live(at=113, tally={"added": 6, "recut": 5}),
        ],
    )
    assert [line.partition(",")[0] for line in seen] == [
        "progress: 5 of 6 documents",
        "progress: 6 of 6 documents",
    ]


def test_progress_of_short_work_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    assert lines_of(caplog, [Live(at=100, waiting=5), Live(at=103, tally={"changed": 5})]) == []


def test_lines_of_long_work_become_rarer(caplog: pytest.LogCaptureFixture) -> None:
    hours = [live(second, 36_000 - second, second, 0) for second in range(36_000)]
    assert 60 < len(lines_of(caplog, hours)) < 90


@pytest.mark.parametrize(
    ("stretch", "words"),
    [
        (SyncProgress(0, 53, 0, 0.0, loading=True), "0 of 53 documents, loading the model"),
        (
            SyncProgress(0, 53, 0, 9.0, left=120, begun=4, loading=True),
            "0 of 53 documents, 0 of 120 texts embedded, loading the model",
        ),
        (
            SyncProgress(0, 40, 16, 2.0, left=304, begun=10),
            "0 of 40 documents, 16 of 320 texts embedded, 8.0/s, 3 min left",
        ),
        (
            SyncProgress(30, 10, 900, 90.0, left=100, begun=10),
            "30 of 40 documents, 900 of 1,000 texts embedded, 10.0/s, 10 s left",
        ),
        (SyncProgress(30, 10, 900, 90.0), "30 of 40 documents, 900 of 900 texts embedded, 30 s left"),
        (SyncProgress(30, 10, 0, 3.0), "30 of 40 documents, 1.0 s left"),
        (SyncProgress(40, 0, 1000, 100.0), "40 of 40 documents, 1,000 of 1,000 texts embedded, 10.0/s"),
        (SyncProgress(0, 1, 30, 0.5, begun=1), "0 of 1 document, 30 of 30 texts embedded"),
    ],
)
def test_progress_counts_texts_of_texts_known_with_rate_and_time_left(
    stretch: SyncProgress, words: str
) -> None:
    assert describe_work(stretch) == words


def test_time_left_counts_large_documents_that_are_read_last() -> None:
    meter = Meter()
    meter.measure(Live(at=100, waiting=100, bytes_waiting=10_000_000))
    tally = {"added": 90, "records_added": 200}
    now = meter.measure(Live(at=110, waiting=10, bytes_waiting=9_500_000, tally=tally, texts=500))
    assert (now.records, now.texts_expected) == (200, 10_000)
    assert now.seconds_left == 190.0


def test_rate_and_time_left_leave_out_loading_of_the_model() -> None:
    meter = Meter()
    seen = [
        meter.measure(
            Live(at=at, waiting=40, loading=not texts, texts=texts, texts_left=380, in_flight={"a": 40})
        )
        for at, texts in ((100.0, 0), (109.0, 0), (111.0, 20))
    ]
    assert [each.rate for each in seen] == [None, None, 10.0]
    assert [each.seconds_left for each in seen] == [None, None, 38.0]


def test_bar_moves_with_texts_while_documents_stand_still() -> None:
    shares = [
        SyncProgress(0, 40, texts, 2.0, left=320 - texts, begun=10).share for texts in (0, 16, 160, 320)
    ]
    assert shares == [0.0, 16 / 1280, 160 / 1280, 320 / 1280]


def test_lines_of_work_come_every_few_seconds_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    seen = lines_of(
        caplog,
        [
            *(live(second, 12 - second, second, 0) for second in range(12)),
            live(12, 0, 12, 0),
            live(13, 0, 12, 0),
        ],
    )
    assert [line.partition(" document")[0] for line in seen] == [
        "progress: 5 of 12",
        "progress: 10 of 12",
        "progress: 12 of 12",
    ]


def test_bar_is_visible_only_while_work_waits() -> None:
    screen = io.StringIO()
    bar = Progress(console=Console(file=screen, force_terminal=True, width=80), auto_refresh=False)
    shown = Bar(bar)
    states = []
    for waiting in (3, 0, 2, 1, 0):
        shown(SyncProgress(1, waiting, 0, 1.0))
        states.append((bar.live.is_started, bar.tasks[0].total and bar.tasks[0].completed))
    assert states == [(True, 1 / 4), (False, None), (True, 1 / 3), (True, 1 / 2), (False, None)]


def test_long_listing_is_logged_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]

    def readings() -> Iterator[Live]:
        for second in range(13):
            now[0] += 1
            listing = {"docs": RunningListing(100.0, 7 * second, f"{second}.txt")}
            yield Live(at=100.0 + second, listing=listing)

    monkeypatch.setattr("ingestor.cli.output.progress.monotonic", lambda: now[0])
    assert lines_of(caplog, readings()) == [
        "source docs is being listed for 5.0 s: 35 documents found, the last one 5.txt",
        "source docs is being listed for 10 s: 70 documents found, the last one 10.txt",
    ]


def test_long_task_prints_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("ingestor.cli.output.progress.monotonic", lambda: now[0])
    for quiet in (False, True):
        with busy("Reading what is new", quiet) as say:
            for number in range(11):
                now[0] += 1
                say(f"docs: {number} of 11 read")
    assert capsys.readouterr().err.splitlines() == [
        "Reading what is new: docs: 4 of 11 read",
        "Reading what is new: docs: 9 of 11 read",
    ]


@pytest.mark.parametrize(
    ("records", "question", "words"),
    [(0, None, "No documents to index yet"), (3, "When does it open?", 'query "When does it open?"')],
)
def test_daemon_names_the_next_step_at_its_first_rest(
    records: int, question: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    greet(Ready(("docs",), records, 0, (), 1.0, "", "", question), Path("config.yaml"))
    assert words in capsys.readouterr().err


def test_daemon_that_cannot_write_a_collection_is_not_in_step(capsys: pytest.CaptureFixture[str]) -> None:
    state = Ready(("docs",), 3, 0, (), 1.0, "http://far:8000", "", None, unusable=("docs",))
    greet(state, Path("config.yaml"))
    printed = capsys.readouterr().err
    assert "Not in step: docs cannot be written; reasons: " in printed
    assert "In step:" not in printed
    assert "listens" not in printed


@pytest.mark.parametrize("listed", [True, False])
def test_daemon_whose_source_cannot_be_listed_promises_nothing(
    listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    greet(Ready(("docs",), 3, 0, ("notes",), 1.0, "", "", None, listed), Path("config.yaml"))
    printed = capsys.readouterr().err
    assert "not fully listed: notes" in printed
    assert "No documents to index yet" not in printed
    assert ("In step" in printed, "No source could be listed: 3 records in docs" in printed) == (
        listed,
        not listed,
    )
