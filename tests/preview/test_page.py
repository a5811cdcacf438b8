"""The page of ``ingestor chunk --html``: what it shows, that it is safe, and that it stays small."""

import json
import re
import shutil
import subprocess
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.cli.chunk_command import assets
from ingestor.config.models import Choice
from ingestor.llm.client import DirectAnswers
from ingestor.model import Block, Chunk, Document
from ingestor.preview import plot
from ingestor.preview.page import LISTED, SHOWN, page
from ingestor.preview.preview import CountedEmbedding, Cut, cut, read
from ingestor.preview.view import flow_lines, parts
from ingestor.registry import find
from tests.page.seen import Page

TEXTS = Path(__file__).parents[1] / "chunkers/golden/texts"
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; </style> ${name} $name \x00\u202e"


def chosen(kind: str, **options: Any) -> Choice:
    plugin = find("chunkers", kind)
    return Choice(plugin, plugin.options(**options))


def reading() -> CountedEmbedding:
    plugin = find("embedders", "hashing")
    return CountedEmbedding(Choice(plugin, plugin.options(dimensions=64)), DirectAnswers())


def made(document: Document, file: Path, *choices: Choice) -> list[Cut]:
    embedded = reading()
    return [cut(file, document, choice, embedded, look=True) for choice in choices]


def test_page_loads_nothing_and_runs_only_its_own_script() -> None:
    document = read(TEXTS / "hydroponics.md", ())
    text = page("soil", document, made(document, TEXTS / "hydroponics.md", chosen("cluster")), *assets())
    found = Page(text)
    addresses = [v for _, attributes in found.tags for k, v in attributes.items() if k in ("src", "href")]
    assert addresses
    assert all(address and address.startswith("data:image/png;base64,") for address in addresses)
    assert not [tag for tag, _ in found.tags if tag in ("link", "iframe", "object", "base", "form", "a")]
    assert not [k for _, attributes in found.tags for k in attributes if k.startswith("on")]
    assert re.findall(r"url\(|@import|https?:|fetch\(|XMLHttpRequest|innerHTML", text) == []
    policy = next(a["content"] for t, a in found.tags if t == "meta" and "http-equiv" in a)
    digest = b64encode(sha256(found.texts["script"][0].encode()).digest()).decode()
    assert policy
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy


def test_page_escapes_every_text_of_documents() -> None:
    title = ATTACK.replace("\x00", "")
    document = Document(
        f"{ATTACK} first. {ATTACK} second.",
        (Block("heading", 0, 9, level=1, title=title), Block("table", 20, 60, page_label=title)),
        content_type=title, title=title,
    )  # fmt: skip
    choice = chosen("recursive", separators=(title, "."), size=20)
    cuts = made(document, TEXTS / "hydroponics.md", choice, chosen("kmeans"))
    cuts = [
        replace(each, chunks=tuple(replace(c, extra=(("note", "<b>"),)) for c in each.chunks))
        for each in cuts
    ]
    found = Page(page(ATTACK, document, cuts, *assets()))
    names = {tag for tag, _ in found.tags}
    assert len(found.texts["script"]) == len(found.texts["style"]) == 1
    assert not names & {"img", "b"} - {"b"}
    assert [data for data in found.texts["b"] if not data.isdigit()] == []
    assert "\x00" not in "".join(found.texts["main"])
    assert found.texts["h1"][0] == ATTACK.replace("\x00", "\\u0000").replace("\u202e", "\\u202e")


def test_every_chunk_is_shown_with_its_margin() -> None:
    document = read(TEXTS / "hydroponics.md", ())
    cuts = made(
        document, TEXTS / "hydroponics.md", chosen("fixed", size=100, overlap=20), chosen("changepoint")
    )
    found = Page(page("soil", document, cuts, *assets()))
    texts = found.texts["li"]
    assert len(texts) == sum(len(each.chunks) for each in cuts)
    for shown, chunk, tokens in zip(texts, cuts[0].chunks, cuts[0].tokens, strict=False):
        assert f"{tokens} tokens" in shown
        assert "".join(chunk.text.split()) in "".join(shown.split())
    assert sum(len(data) > 0 for data in found.texts["mark"]) > len(cuts[0].chunks)
    units = [attributes["data-units"] for tag, attributes in found.tags if tag == "li"]
    assert all(units), "fixed is shown by what changepoint saw"
    assert "the figures show those that changepoint compared" in found.texts["main"][0]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=6))
def test_parts_are_the_chunk(pairs: list[tuple[int, int]]) -> None:
    text = "".join(chr(97 + at % 26) for at in range(100))
    spans = sorted({(start, start + length) for start, length in pairs}, key=lambda span: span)
    chunks = [Chunk(start, end, text[start:end]) for start, end in spans]
    for chunk, found in zip(chunks, parts(text, chunks), strict=True):
        assert "".join(part.text for part in found) == chunk.text
        assert all(part.start is not None and text.startswith(part.text, part.start) for part in found)
    for (one, before), (two, after) in pairwise(zip(chunks, parts(text, chunks), strict=True)):
        repeated = [part for part in after if part.role == "before"]
        assert bool(repeated) == (two.start < one.end)
        assert all(part.role != "after" for part in before) or two.start < one.end


def test_soft_line_end_is_a_space_and_a_hard_one_stays() -> None:
    text = "One\ntwo  \nthree\\\nfour\n\n| a |\n| b |"
    document = Document(text, (Block("paragraph", 0, 21), Block("table", 23, 34)), "text/markdown")
    assert flow_lines(document) == "One two  \nthree\\\nfour\n\n| a |\n| b |"
    assert flow_lines(replace(document, content_type="text/plain")) == text


def units(count: int) -> Any:
    rows = np.random.default_rng(0).normal(size=(count, 8))
    return np.rint(rows / np.linalg.norm(rows, axis=1)[:, None] * (1 << 14)).astype(np.int32)


@pytest.mark.parametrize("count", [2, 3, 399, 400, 401, 5001])
def test_pictures_have_a_bounded_size(count: int) -> None:
    chunks = [[(at, min(at + 2, count))] for at in range(0, count, 2)]
    drawn = plot.matrix(units(count), chunks)
    data = b64decode(drawn.partition("base64,")[2].partition('"')[0])
    side = -(-count // plot.share(count, plot.PIXELS))
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (side, side)
    assert side <= plot.PIXELS
    distances = np.linspace(0, 1, count - 1)
    curve = plot.curve(distances, np.full(count - 1, 0.5), chunks)
    assert len(curve) < 60_000
    assert len(drawn) < 320_000


def test_curve_points_lie_between_units_and_the_line_at_its_value() -> None:
    drawn = plot.curve(np.array([0.0, 0.25, 1.0]), np.array([0.5, 0.5, 0.75]), [[(0, 1)], [(1, 4)]])
    assert 'd="M1 100L2 75L3 0"' in drawn
    assert 'class="bound" d="M0.5 50H2.5V25H3.5"' in drawn
    assert 'class="band even" d="M0 0H1V100H0z"' in drawn
    assert 'class="band odd" d="M1 0H4V100H1z"' in drawn


def test_curve_omits_a_bound_outside_its_range() -> None:
    drawn = plot.curve(np.array([0.0, 1.0]), np.array([np.inf, np.inf]), [[(0, 3)]])
    assert 'class="bound" d="M0.5 -100H2.5"' in drawn


def test_long_document_is_truncated_and_the_page_reports_it() -> None:
    text = "word. " * 60_000
    document = Document(text)
    chunks = tuple(Chunk(at, at + 5, text[at : at + 5]) for at in range(0, len(text), 6))
    found = Cut(chosen("fixed"), chunks, [{"token_count": 2}] * len(chunks), [2] * len(chunks), 0.1, 0.0)
    few = replace(found, chunks=chunks[::10], metadata=found.metadata[::10], tokens=found.tokens[::10])
    assert f"{len(chunks) - LISTED:,} more chunks not shown" in page("long", document, [found], *assets())
    whole = Page(page("long", document, [few], *assets()))
    assert len(whole.texts["li"]) == min(LISTED, SHOWN // 60)
    assert len(page("long", document, [found, few, few], *assets())) < 4_000_000


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """
const seen = {errors: [], columns: columns.map((column) => column.chunks.length)};
window.addEventListener("error", (event) => seen.errors.push(event.message));
const down = new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true});
columns[0].chunks[0].item.focus();
columns[0].chunks[0].item.dispatchEvent(down);
seen.on = [...document.querySelectorAll("li.on .beside b")].map((item) => item.textContent);
seen.same = [...document.querySelectorAll("li.same")].length;
seen.near = [...document.querySelectorAll("li.near")].length;
seen.square = columns[0].matrix.querySelector(".mark").getAttribute("d");
leader = columns[0];
show(columns[0], columns[0].chunks[2], 0);
follow(columns[0]);
const shown = at_place(columns[1], begin(columns[0].chunks[2]));
seen.together = shown.item.offsetTop <= columns[1].pane.scrollTop + 1
  && columns[1].pane.scrollTop < shown.item.offsetTop + shown.item.offsetHeight;
seen.wide = document.documentElement.scrollWidth <= innerWidth;
document.body.dataset.seen = JSON.stringify(seen);
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [390, 1440])
def test_preview_works_in_a_browser(tmp_path: Path, width: int) -> None:
    file = TEXTS / "hydroponics.md"
    document = read(file, ())
    cuts = made(document, file, chosen("changepoint"), chosen("fixed", size=60), chosen("breakpoint"))
    frame, style, script = assets()
    (tmp_path / "page.html").write_text(
        page("soil", document, cuts, frame, style, f"{script}\n{PROBE}"), "utf-8"
    )
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900", "--dump-dom", (tmp_path / "page.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    seen = json.loads(unescape(done.stdout.partition('data-seen="')[2].partition('"')[0]))
    assert seen["errors"] == []
    assert seen["columns"] == [len(each.chunks) for each in cuts]
    assert seen["on"] == ["2"]
    assert seen["same"] >= 2
    assert seen["near"] == 2
    assert re.fullmatch(r"M\d+ \d+H\d+V\d+H\d+z", seen["square"])
    assert seen["together"]
    assert seen["wide"], "the page itself never scrolls sideways"
