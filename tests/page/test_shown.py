"""What the pages show of what they know: texts, words, charts and the sentence at the top."""

import re
from dataclasses import replace
from html import unescape
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.lexical.terms import places, question_words
from ingestor.model import Record, RecordId
from ingestor.page.documents import rebuild
from ingestor.page.figures import (
    MOST_REASONS,
    ShownCounts,
    ago,
    clock,
    counts_of,
    describe_pending,
    group_reasons,
    headline,
    moment,
    span,
)
from ingestor.page.overview import DAY, MOST_BARS, ChartPoint, charts, sources_now
from ingestor.page.search import render_hit
from ingestor.preview.view import parts
from ingestor.service.situation import Situation, SourceFigures
from tests.service.world import Daemon


def record(start: int, end: int, text: str) -> Record:
    return Record(
        RecordId(str(start)), text, {"start_index": start, "end_index": end}, np.zeros(0, np.float32)
    )


@given(
    st.text("ab \n", min_size=60, max_size=60),
    st.lists(st.tuples(st.integers(5, 50), st.integers(1, 9)), min_size=1, max_size=8),
)
def test_records_give_back_the_chunks_of_their_text(text: str, spans: list[tuple[int, int]]) -> None:
    records = [record(a, a + n, text[a : a + n]) for a, n in sorted(set(spans))]
    rebuilt, chunks = rebuild(records)
    base = records[0].metadata["start_index"]
    assert isinstance(base, int)
    for chunk, one in zip(chunks, records, strict=True):
        assert rebuilt[chunk.start : chunk.end] == one.text == chunk.text
    shown = ["".join(part.text for part in each) for each in parts(rebuilt, chunks)]
    assert shown == [one.text for one in records]
    covered = {at for a, n in spans for at in range(a, a + n)}
    assert all(letter == " " for at, letter in enumerate(rebuilt, base) if at not in covered)


def test_text_without_a_span_is_shown_alone() -> None:
    records = [record(0, 4, "Four"), record(5, 9, "written anew"), record(10, 14, "More")]
    text, chunks = rebuild(records)
    assert [chunk.rewritten for chunk in chunks] == [False, True, False]
    shown = ["".join(part.text for part in each) for each in parts(text, chunks)]
    assert shown == ["Four", "written anew", "More"]
    alone = Record(RecordId("x"), "no span", {}, np.zeros(0, np.float32))
    assert [part.text for part in parts(*rebuild([alone]))[0]] == ["no span"]
    assert rebuild([]) == ("", [])


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        ("restored backups", "pg_restore /var/tmp/restore Backup", ["restore", "restore", "Backup"]),
        ("backup", "BackupTooOld", ["Backup"]),
        ("ERR_4711", "see ERR_4711 or 4712", ["ERR_4711"]),
        ("§ 12", "nach § 12 und § 13", ["§ 12"]),
        ("東京都庁", "東京都は東京の都庁", ["東京都", "東京", "都庁"]),
        ("Häuser", "Das Haus, die Häuser", ["Haus", "Häuser"]),
        ("nothing", "of this", []),
    ],
)
def test_words_of_a_question_are_found(question: str, text: str, found: list[str]) -> None:
    wanted = set(chain(*question_words(question, ["en", "de"])))
    language = "de" if "ä" in text or "§" in text else "en"
    assert [text[a:b] for a, b in places(text, language, wanted)] == found


TAGS = "p|li|ul|ol|em|strong|del|pre|code|blockquote|br|div|table|caption|tr|td|mark|span"
_HOSTILE = st.sampled_from(
    ["<script>", "</p>", "<!--", "[a](javascript:x)", "![](//x)", "| a | b |\n|---|---|\n", "```\n", "&lt;",
     "* ", "\n\n", "# ", "> ", "1. ", "***", "\u202e", "<b onclick=x>", "`"]
)  # fmt: skip


@given(
    st.lists(st.text(max_size=30) | _HOSTILE, max_size=12).map("".join),
    st.text(max_size=40),
    st.integers(1, 400),
    st.booleans(),
)
def test_rendering_makes_balanced_elements_of_a_list_and_no_others(
    text: str, question: str, most: int, markdown: bool
) -> None:
    wanted = set(chain(*question_words(question, ["en"])))
    shown = str(render_hit(text, markdown, "en", wanted, most))
    opened = []
    for end, name, attributes in re.findall(r"<(/?)([^\s>]*)([^>]*)>", shown):
        assert re.fullmatch(TAGS, name), shown
        assert re.fullmatch(r'( class="[a-z -]+")?', attributes), shown
        if end:
            assert opened.pop() == name
        elif name != "br":
            opened.append(name)
    assert opened == []
    assert not re.search("[\u202a-\u202e]", shown)


def seen(shown: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", shown)).split())


@given(
    st.lists(st.sampled_from(["heron", "may", "a < b", "\n\n", " ", "x&y", "é"]), max_size=40).map(" ".join)
)
def test_rendering_loses_no_word(text: str) -> None:
    for markdown in (True, False):
        shown = render_hit(text, markdown, "en", {"heron"}, 10_000)
        assert seen(shown).replace(" ", "") == "".join(text.split())
        assert shown.count("<mark>") == text.count("heron")


def test_markdown_is_rendered_with_marks_in_cells_lists_and_code() -> None:
    text = (
        "---\ntitle: x\n---\n\n## Herons é\n\n| Bird | Seen |\n|---|--:|\n| heron | 12 |\n\n- `heron` *one*\n"
        "- [a heron](javascript:alert)\n\n<b>raw</b>\n"
    )
    shown = str(render_hit(text, True, "en", {"heron"}, 700))
    assert '<p class="title-of-part"><mark>Herons</mark> é</p>' in shown
    assert "<td><mark>heron</mark></td><td>12</td>" in shown
    assert "<li><code><mark>heron</mark></code> <em>one</em></li>" in shown
    assert "<li>a <mark>heron</mark></li>" in shown
    assert "&lt;b&gt;raw&lt;/b&gt;" in shown
    assert "title: x" not in shown
    assert "javascript" not in shown


def test_tables_of_other_texts_are_rendered_and_the_rest_is_as_it_is() -> None:
    text = "# Sheet one\n* not a list\n\n| a | b |\n| --- | --- |\n| heron | 2 |\n\nafter"
    shown = str(render_hit(text, False, "en", {"heron"}, 700))
    assert "# Sheet one\n* not a list" in shown
    assert "<td><mark>heron</mark></td><td>2</td>" in shown
    assert "<li>" not in shown
    assert shown.endswith("after</div>")


def test_excerpt_that_begins_inside_a_table_has_its_header() -> None:
    rows = "".join(f"| bird {number} | {number} |\n" for number in range(200))
    for markdown in (True, False):
        text = f"| Bird | Seen |\n|---|---|\n{rows}| needle | 7 |\n"
        shown = str(render_hit(text, markdown, "en", {"needl"}, 200))
        assert '<td class="head">Bird</td><td class="head">Seen</td>' in shown
        assert "<td><mark>needle</mark></td><td>7</td>" in shown
        assert "bird 3" not in shown and "|" not in seen(shown)


def test_excerpt_begins_near_the_first_matched_word() -> None:
    text = "before " * 200 + "the needle is here " + "after " * 200
    for markdown in (True, False):
        shown = str(render_hit(text, markdown, "en", {"needl"}, 100))
        assert "<mark>needle</mark>" in shown
        assert shown.startswith('<span class="cut">… </span>')
        assert shown.endswith('<span class="cut"> …</span>')
        assert len(seen(shown)) < 120


def test_failures_are_grouped_by_kind_in_sentences() -> None:
    reasons = [
        ("docs", "is 12 MB; max_size is 10 MB", 1),
        ("docs", "is 14 MB; max_size is 10 MB", 2),
        ("mail", "is encrypted", 4),
    ]
    first, second = group_reasons(reasons)
    assert (first.source, first.documents, first.example, first.alike) == ("mail", 4, "is encrypted", True)
    assert (second.documents, second.alike) == (3, False)
    assert second.example == "is 12 MB; max_size is 10 MB"
    assert len(group_reasons([(f"s{n}", "x", 1) for n in range(50)])) == MOST_REASONS


def test_pending_documents_are_counted_as_read_or_waiting() -> None:
    assert describe_pending(ShownCounts(due=0), 0) == "nothing waits"
    assert describe_pending(ShownCounts(due=12), 3) == "3 being read, 9 waiting"
    assert describe_pending(ShownCounts(due=12, waiting=2), 3) == "3 being read, 7 waiting, 2 to be retried"
    assert describe_pending(ShownCounts(due=2, waiting=2), 0) == "2 to be retried"


def test_figures_are_formatted_for_people() -> None:
    assert [span(each) for each in (-5, 0, 59.9, 60, 3599, 7200, 86_400 * 3)] == [
        "0 s", "0 s", "59 s", "1 min", "59 min", "2 h", "3 d",
    ]  # fmt: skip
    assert (moment(0), clock(0)) == ("1970-01-01T00:00:00Z", "1970-01-01 00:00 UTC")
    assert (ago(10, 70), ago(70, 10), ago(11, 10)) == ("1 min ago", "in 1 min", "0 s ago")


def test_charts_hold_every_write_and_the_highest_lag() -> None:
    samples = [ChartPoint(1000.0 + 20 * n, float(n % 50), 3 * n, 10 * n) for n in range(300)]
    lag, documents, records = charts(samples, samples[-1].at)
    assert "at most 49 s" in lag.summary
    assert documents.summary.startswith(f"{3 * 299:,} in all")
    assert records.summary.startswith("2,990 in all")
    assert lag.since == 3 * 3600
    for one in (lag, documents, records):
        assert 0 < str(one.drawn).count("M") <= MOST_BARS
        assert f"<title>{one.title}" in str(one.drawn)


@given(st.lists(st.floats(0, 2 * DAY), max_size=40), st.integers(0, 10**9))
def test_charts_take_any_samples(times: list[float], lag: int) -> None:
    samples = [ChartPoint(at, float(lag), n, n) for n, at in enumerate(sorted(times))]
    for one in charts(samples, 2 * DAY):
        assert one.since <= DAY
        assert "nan" not in str(one.drawn)


def situation(lag: float | None = None, idle: float = 0.0, **documents: int) -> Situation:
    of = {("docs", "all", state): n for state, n in documents.items()}
    source = SourceFigures(900.0, interval=60.0, oldest=None if lag is None else 1000.0 - lag)
    return Situation(at=1000.0, idle=idle, documents=of, sources={"docs": source})


UNLISTED_YET = Situation(at=1000.0, sources={"docs": SourceFigures(interval=60.0)})


@pytest.mark.parametrize(
    ("found", "asking", "mood", "words"),
    [
        (situation(), [], "empty", "No documents yet"),
        (situation(settled=5), [], "good", "Everything is in step"),
        (situation(settled=5, quarantined=1), [], "good", "1 document cannot be read"),
        (situation(75, settled=5, due=2, gone=1), [], "busy", "3 changes pending the oldest change is 1 min"),
        (situation(settled=5), ["docs", "all"], "asks", "docs, all"),
        (situation(idle=100, settled=5), [], "bad", "the engine makes no progress"),
        (replace(situation(settled=5), swaps={"all": (2, 5)}), [], "busy", "A collection is being rebuilt"),
        (UNLISTED_YET, [], "busy", "Sources are being scanned"),
    ],
)
def test_headline_summarises_the_state(found: Situation, asking: list[str], mood: str, words: str) -> None:
    said = headline(found, asking, found.lag("docs"))
    assert said.mood == mood
    assert words in f"{said.text} {said.more}"


def test_documents_are_counted_for_people() -> None:
    counts = counts_of(situation(settled=5, due=2, waiting=3, gone=1, quarantined=4, unsupported=6))
    assert (counts.settled, counts.due, counts.waiting, counts.all) == (5, 6, 3, 21)


def test_sources_that_need_a_person_are_shown_and_those_long_gone_are_not(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with daemon.journal.transaction() as db:
        db.execute("INSERT INTO sources (name, held) VALUES ('docs', 'too few')")
    assert sources_now(daemon.view(), Situation(sources={"old": SourceFigures(1.0)})) == []
    (docs,) = sources_now(daemon.view(), situation(settled=5))
    assert (docs.name, docs.collections) == ("docs", ["all"])
    assert docs.row.hold == docs.problem == "too few"
    daemon.close()
