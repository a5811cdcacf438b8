"""The page: every strategy in every figure, what was missed is marked, and hostile text stays text."""

import re
from pathlib import Path

from ingestor.evaluate.comparison import compare
from ingestor.evaluate.figures import COLOURS, curves, differences, sizes
from tests.e2e.in_process import Ask
from tests.e2e.project import Project
from tests.endpoint import Endpoint
from tests.evaluate.scripted_model import BAD
from tests.evaluate.test_intervals import drawn


def test_table_and_page_show_every_strategy_and_what_each_missed(
    ask: Ask, endpoint: Endpoint, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    words = ("evaluate", "--strategies", f"configured,{BAD}", "--make", "40", "--judge", "10")
    expected = ask(*words, "--estimate")
    assert endpoint.calls == 0
    assert expected.out.startswith("language model scripted: about 44 requests")
    answer = ask(*words, "--html", str(file))
    assert answer.code == 0, answer
    assert expected.out in answer.err
    assert "Judged: answers to 10 of 10 questions, from 500 tokens of each strategy" in answer.out
    assert "correct" in answer.out
    assert "without a language model" in answer.out
    html = file.read_text("utf-8")
    body = html.partition("<body>")[2]
    assert "<h1>recursive:size=60 stays</h1>" in body
    assert body.count("<polyline") == 2
    assert body.count('class="arm"') == 1  # the difference from the configured one
    assert body.count('class="sizes"') == 2
    assert "<h2>Judged answers</h2>" in body
    assert body.count("<details>") == 10
    assert "<mark>" in body
    details = body.partition("<h2>Further figures</h2>")[2].partition("</table>")[0]
    heads = ("found@1", "found@3", "found@5", "similarity", "precision@5", "IoU@5, tokens", "to settle")
    assert all(f"<th>{head}</th>" in details for head in heads)
    assert details.count(" ± ") == 10
    assert "<del>" in body
    opened, closed = (set(re.findall(rf"<{slash}(\w+)", body)) for slash in ("", "/"))
    assert opened - {"line", "circle", "polyline", "polygon", "rect", "i"} <= closed
    assert "$" not in body.replace("$5", "")


def test_page_without_judgements_has_no_section(settled: Project, ask: Ask, tmp_path: Path) -> None:
    text = "\n\n".join(
        f"Part {n} of the mill has {n * 3} wheels, which turn as long as it rains." for n in range(40)
    )
    (settled.docs / "mill.txt").write_text(text)
    assert ask("evaluate", "--strategies", "fixed:size=50", "--html", str(tmp_path / "page.html")).code == 0
    body = (tmp_path / "page.html").read_text("utf-8").partition("<body>")[2]
    assert "Judged answers" not in body
    assert "<h1>fixed:size=50 is recommended</h1>" in body
    assert "chunking:\n  strategy: fixed" in body


def test_figures_stay_inside_their_frame() -> None:
    scores, about = drawn(1, 60, 10, [0.0, -0.5, 0.3] + [0.1] * COLOURS)
    found = {500: compare(scores, about), 2000: compare(scores + 0.05, about)}
    names = [f"S{at}" * (1 if at else 30) for at in range(len(scores))]
    for svg in (curves(names, found, 2), differences(names, found[500], 1), sizes([10, 60, 5000])):
        width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
        across = [float(x) for x in re.findall(r'\b(?:x|x1|x2|cx)="([-\d.]+)"', svg)]
        down = [float(y) for y in re.findall(r'\b(?:y|y1|y2|cy)="([-\d.]+)"', svg)]
        assert all(0 <= x <= width for x in across)
        assert all(0 <= y <= height for y in down)
    end = float(
        re.findall(r'<text x="(\d+)" y="\d+" text-anchor="end">S0', differences(names, found[500], 1))[0]
    )
    assert end > 7.5 * len(names[0])  # a long name begins inside the frame
    drawing = differences(names, found[500], 1)
    marks = re.findall(r'class="soft" text-anchor="middle">([+−]?\d+)</text>', drawing)
    assert len(marks) >= 3, "a scale of points"
    assert "0" in marks
    assert differences(["S0"], compare(scores[:1], about), 0) == ""


def test_single_budget_is_drawn() -> None:
    scores, about = drawn(1, 40, 5, [0.0, 0.1])
    assert curves(["A", "B"], {800: compare(scores, about)}, 0).count("<polyline") == 2
