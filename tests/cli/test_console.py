"""Tables, plans, verifications and statuses as people see them."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ingestor.cli.output.console import duration, print_table, show_documents, show_sync, show_verify
from ingestor.cli.output.overview import MOST, show_plan, show_status
from ingestor.cli.usage import CONFIG
from ingestor.queries.needs import Disk, Needs
from ingestor.queries.plan import AskingPlan, EmbeddingPlan, SyncPlan
from ingestor.queries.status import (
    Asked,
    CollectionStatus,
    DocumentCounts,
    EmbeddedTexts,
    FailedDocument,
    RecordCounts,
    SourceStatus,
    Status,
    SyncReport,
)
from ingestor.queries.verification import Verification
from ingestor.state.reports import Listed, Skipped

NO_WORK = SyncPlan(
    documents=DocumentCounts(), records=RecordCounts(), cuts_known=True,
    embed=EmbeddingPlan(0, 0, exact=True), ask=AskingPlan(0, 0, 0.0),
    sources={}, changes=(), leaving=(), renamed={}, cost=0.0,
    needs=Needs(Disk(0, 0, 0), 0, 0.0, 0.0, 0.0, 0.0), sampled={}, tokens_per_second=None, seconds=None,
    problems=(), skipped=(), unseen={}, unusable={}, running=False,
)  # fmt: skip
STOPPED = Status(
    running=False, started=None, chroma="", config_error=None, config_restart=(), config_since=None,
    sources={}, collections={}, failures=(), skipped=(), short=(),
    embedded_texts=0, embedded_tokens=0, embedding_cost=0.0, texts_per_second=None, tokens_per_second=None,
    no_service="", guard="", isolation="",
)  # fmt: skip


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """With ``ingestor`` for the program, however it was called."""
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.fixture(autouse=True)
def _called_by_name_at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ingestor"])
    monkeypatch.setattr(time, "time", lambda: NOW)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (7200, "2.0 h"),
        (86400 * 3, "3 days"),
    ],
)
def test_duration_is_worded_by_its_length(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_table_with_wide_characters_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "records", "last"), [("文書", "7", "long ago"), ("a\nb", "1,234", "now")])
    assert said(capsys).splitlines() == [
        "name   records   last",
        "文書         7   long ago",
        "a\\nb     1,234   now",
    ]


def test_table_on_narrow_terminal_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("document",), [("x" * 300,)])
    assert said(capsys) == f"document\n{'x' * 300}\n"


def test_plan_with_work_shows_counts_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    counts = DocumentCounts(added=2, moved=1, unchanged=1200)
    plan = replace(
        NO_WORK,
        documents=counts,
        records=RecordCounts(added=7, patched=3),
        cuts_known=False,
        embed=EmbeddingPlan(7, 90_000, exact=False),
        sources={"docs": counts},
        tokens_per_second=1000.0,
        seconds=90.0,
        problems=(("a.bin", "not text"),),
    )
    show_plan(plan, False, Path("my.yaml"))
    assert said(capsys).splitlines() == [
        "source   added   changed   moved   removed   unchanged",
        "docs         2         0       1         0       1,200",
        "",
        "records    about 7 added, 3 patched; an estimate: the cuts depend on texts not embedded yet",
        "to embed   about 7 texts, 90,000 tokens",
        "time       about 2 min, at this machine's 1,000 tokens/s",
        "a.bin: not text",
        "",
        "Nothing was changed. To do it: ingestor sync --config my.yaml",
    ]


def test_plan_joins_documents_that_fail_for_one_reason_and_bounds_reasons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problems = [("a.pdf", "is damaged"), ("b.pdf", "is damaged")]
    problems += [(f"{number}.bin", f"reason {number}") for number in range(100)]
    show_plan(replace(NO_WORK, sources={"docs": DocumentCounts()}, problems=tuple(problems)), False, CONFIG)
    shown = [each for each in said(capsys).splitlines() if "reason" in each or "damaged" in each]
    assert (shown[0], len(shown)) == ("a.pdf and 1 more: is damaged", MOST)
    show_plan(replace(NO_WORK, sources={"docs": DocumentCounts()}, problems=tuple(problems)), False, CONFIG)
    assert "All of them: ingestor plan --json" in said(capsys)


def test_plan_without_work_reports_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    counts = DocumentCounts(unchanged=3)
    show_plan(replace(NO_WORK, documents=counts, sources={"docs": counts}), False, CONFIG)
    assert said(capsys).splitlines()[-1] == "Nothing to do."


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Verification(checked=1), ["1 record checked", "Everything is in order."]),
        (Verification(checked=2, repaired=True), ["2 records checked", "Everything is in order again."]),
        (
            Verification(checked=5000, missing=2, wrong_metadata=1, examples=("docs: missing: a#1",)),
            [
                "5,000 records checked",
                "difference       number",
                "missing               2",
                "wrong metadata        1",
                "  docs: missing: a#1",
                "To repair it: ingestor verify --repair",
            ],
        ),
        (
            Verification(unsettled=1, unseen={"docs": "not there"}),
            [
                "0 records checked",
                "source docs: not there",
                "1 document not in step with the sources; details: ingestor status",
                "To bring them in step: ingestor sync",
            ],
        ),
        (
            Verification(unsettled=1, examples=("docs: unsettled: a.md: no right",), running=True),
            [
                "0 records checked",
                "  docs: unsettled: a.md: no right",
                "1 document not in step with the sources; details: ingestor status",
                "The running ingestor is updating them.",
            ],
        ),
        (
            Verification(stale=1, unsettled=1, running=True),
            [
                "0 records checked",
                "difference   number",
                "stale             1",
                "1 document not in step with the sources; details: ingestor status",
                "The running ingestor is updating them.",
                "Records that are being written differ, too: verify again when they are written.",
            ],
        ),
        (
            Verification(broken={"docs": "torn"}, running=True),
            [
                "0 records checked",
                "collection docs: torn",
                "To repair it: stop the running ingestor, then: ingestor verify --repair",
            ],
        ),
        (
            Verification(broken={"docs": "torn"}),
            ["0 records checked", "collection docs: torn", "To repair it: ingestor verify --repair"],
        ),
    ],
)
def test_verification_shows_differences_and_remedy(
    report: Verification, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show_verify(report, False, CONFIG)
    assert said(capsys).splitlines() == words


def test_documents_that_failed_for_one_reason_are_joined_by_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures = tuple(
        FailedDocument(source, f"{number}.pdf", "is damaged", 1, None, quarantined=True)
        for source in ("docs", "wiki")
        for number in range(3)
    )
    show_status(replace(STOPPED, failures=failures), False, CONFIG)
    outlook = "    quarantined until the file or the config changes: is damaged"
    assert said(capsys).splitlines()[-7:] == [
        "6 documents failed:",
        "docs: 0.pdf and 2 more",
        outlook,
        "wiki: 0.pdf and 2 more",
        outlook,
        "All of them: ingestor ls --json",
        "To retry at once: ingestor retry --all",
    ]


def test_sync_prints_the_reason_of_an_unusable_collection_once(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "is written by another ingestor"
    report = SyncReport(
        documents=DocumentCounts(), records=RecordCounts(), embedded=EmbeddedTexts(0, 0, 0.0),
        asked=Asked(0, 0, 0, 0.0), seconds=1.0, problems=(), waits={}, short=(), unsupported={}, paused=(),
        held={"docs": reason}, unusable={"docs": reason}, unseen={}, unconfigured={}, interrupted=False,
    )  # fmt: skip
    show_sync(report, False, CONFIG)
    assert [each for each in said(capsys).splitlines() if reason in each] == [f"collection docs: {reason}"]


def test_listing_outside_terminal_has_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Listed("docs", "a b.md", "id1", "c", 12, True, "settled"),
        Listed("n", "x\ny", "id2", "c", 0, False, "due"),
    ]
    show_documents(["docs", "n"], iter(rows), False)
    assert said(capsys).splitlines() == [
        "docs  settled          12  a b.md",
        "n     due               0  x\\ny",
    ]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_listing_in_json_is_one_list(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Listed("docs", f"{n}.md", f"id{n}", "c", n, True, "settled") for n in range(number)]
    show_documents(["docs"], iter(rows), True)
    assert said(capsys) == json.dumps([asdict(row) for row in rows]) + "\n"


def status_shown(
    status: Status, capsys: pytest.CaptureFixture[str], config: Path = CONFIG, *, verbose: bool = False
) -> str:
    show_status(status, False, config, verbose=verbose)
    return said(capsys)


NOW = 1_800_000_000.0


def test_status_of_healthy_daemon_has_no_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    status = replace(
        STOPPED,
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
    assert status_shown(status, capsys).splitlines() == [
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
    status = replace(STOPPED, running=True, no_service="127.0.0.1:8001 is taken by another program")
    assert "service port: none (127.0.0.1:8001 is taken by another program)" in status_shown(status, capsys)


def test_status_of_stopped_daemon_with_work_names_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status = replace(
        STOPPED,
        sources={"docs": SourceStatus(due=2, last_scan=NOW)},
        collections={"docs": CollectionStatus()},
    )
    head, then, *_ = status_shown(status, capsys, Path("my.yaml")).splitlines()
    assert head == "not running; 2 documents to do"
    assert then == "To do it: ingestor run --config my.yaml, or once: ingestor sync --config my.yaml"


def test_status_shows_embedding_and_guard_below_tables(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = (Skipped("docs", ".png", 1, "looks like an image"),)
    status = replace(STOPPED, guard="host and origin checks", isolation="landlock", skipped=skipped)
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
        text = status_shown(status, capsys, verbose=verbose)
        told = [*(guard[1:] if verbose else []), *shown]
        assert text.partition("in Chroma\n")[2].splitlines() == [*([""] if told else []), *told, *below]
        assert "in flight" not in text
