"""Every benchmark runs in miniature; the benchmarks, commands, options and targets that docs name exist."""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from inspect import signature
from itertools import count
from pathlib import Path

import pytest

from benchmarks import financebench, race
from benchmarks.__main__ import NAMES
from benchmarks._needs import Missing
from benchmarks.scale import growth
from ingestor.search.values import MODES
from tests.parsers.files import pdf

ROOT = Path(__file__).parent.parent

# Numbers that make each small. What is not here needs data that the tests make, or is run by its own test.
MINIATURES = {
    "correctness": ("ingestor", "edit_one_sentence", 6), "ray": (6,), "nodes": (8,),
    "embed": (1,), "first": (12, "hashing"),
    "formats": (1,), "gap": (1,), "guard": (1,), "headings": (), "language": (2,), "ocr": (2,),
    "million": (30, 60), "race": (20,), "readers": (1, 1, "mail"), "reach": (20, 0, 2), "rebuild": (60,),
    "rechunk": (2,), "scale": (20,), "serve": (200, 8), "settled": (30,), "speed": (1,), "start": (1,),
    "sweep": (), "tables": (1,), "words": (400,),
}  # fmt: skip
SECONDS = 1700  # on a machine that many share; most take less than thirty
OWN_DATA = {
    "answer", "drift", "evaluate", "financebench", "found", "hybrid", "outlines", "retrieval",
}  # fmt: skip


def benchmark(name: str, *numbers: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end. What takes too long is killed with all that it started."""
    words = [sys.executable, "-m", "benchmarks", name, *map(str, numbers)]
    with subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **environment}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        try:
            out, err = running.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, running.returncode, out, err)


def test_growth_is_a_power_of_the_size() -> None:
    sizes = [1000, 2000, 4000]
    assert growth(sizes, [3 + size / 100 for size in sizes], 3) == "files ^ 1.00"
    assert growth(sizes, [3 + size**2 / 10**5 for size in sizes], 3) == "files ^ 2.00"
    assert growth(sizes, [3.0, 3.1, 3.2], 3) == "not at all, as far as is seen"


def test_race_prints_each_result_as_it_completes(capsys: pytest.CaptureFixture[str]) -> None:
    costs: dict[str, race.Cost] = {}
    race.finished(costs, race.BARE, (12.34, 20.0))
    assert capsys.readouterr().out == "its bare engine: 12.3 s, 20.0 s of work\n"
    assert costs == {race.BARE: (12.34, 20.0)}


def test_every_benchmark_has_a_miniature() -> None:
    assert {*MINIATURES, *OWN_DATA} == set(NAMES)


def test_benchmarks_can_be_imported_and_say_how_they_are_called() -> None:
    for name in NAMES:
        module = import_module(f"benchmarks.{name}")
        assert f"python -m benchmarks {name}" in (module.__doc__ or "")
        numbers = signature(module.main).parameters.values()
        assert all(isinstance(each.default, int | str) for each in numbers), name


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(MINIATURES))
def test_benchmarks_run_in_miniature(name: str) -> None:
    done = benchmark(name, *MINIATURES[name])
    if "cannot run: " in done.stderr:
        assert done.returncode == 1
        pytest.skip(done.stderr.partition("cannot run: ")[2].strip())
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Three short corpora with a question each, in the form of the published ones."""
    rows = ["question,references,corpus_id"]
    for name in ("chatlogs", "state_of_the_union", "wikitexts"):
        lines = [f"The keeper of mill {n} in {name} sells flour to {n * 17 % 23} bakers." for n in range(120)]
        (tmp_path / f"{name}.md").write_text("\n\n".join(lines))
        excerpt = json.dumps([{"content": lines[0], "start_index": 0, "end_index": len(lines[0])}])
        rows.append(f'What is sold at mill 0 of {name}?,"{excerpt.replace(chr(34), chr(34) * 2)}",{name}')
    (tmp_path / "questions.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


STONES = count()  # questions are made only of sentences that occur once


def part(name: str, mark: str = "") -> str:
    lines = "".join(f"The keeper of stone {next(STONES)} sells the grain of {name} here.\n" for _ in range(9))
    return f"{mark}The part of {name}\n{'=' * 40}\n\n{lines}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_pipelines_are_compared_on_every_corpus(tmp_path: Path, corpora: Path) -> None:
    """Two manuals, and an FAQ with two questions, of which the answer to one links to a section."""
    manuals = [tmp_path / "manuals" / name for name in ("a", "b")]
    faq = tmp_path / "stones" / "faq"
    for folder in (*manuals, faq):
        folder.mkdir(parents=True)
    for folder in manuals:
        parts = [
            part(f"the {n} mill of {folder.name}")
            for n in ("first", "second", "third", "fourth", "fifth", "sixth")
        ]
        (folder / "manual.rst").write_text("\n\n".join(parts))
    parts = [part(f"part {n}", f".. _part-{n}:\n\n") for n in range(40)]
    (faq.parent / "manual.rst").write_text("\n\n".join(parts))
    (faq / "stones.rst").write_text(
        f"How many stones turn?\n{'=' * 21}\n\nNine: see :ref:`a part <part-7>` and :ref:`part-none`.\n\n"
        f"Who buys all the grain?\n{'=' * 23}\n\nNobody knows.\n"
    )
    done = benchmark(
        "found", 400, INGESTOR_MANUALS=os.pathsep.join(map(str, manuals)), INGESTOR_FAQS=str(faq.parent),
        INGESTOR_CHUNKING_EVAL=str(corpora),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in (
        "report, 3 documents: 3",
        "titles: all: 12",
        "FAQ: stones, 1 documents: 1",
        "code, 1 documents: ",
    ):
        assert f"\n{line}" in done.stdout
    assert done.stdout.count("changepoint, hybrid") == 9


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "numbers"), [("retrieval", ()), ("drift", (100,)), ("hybrid", (1,)), ("evaluate", ())]
)
def test_benchmarks_of_the_evaluation_run_on_corpora_of_its_form(
    name: str, numbers: tuple[int, ...], corpora: Path
) -> None:
    done = benchmark(name, *numbers, INGESTOR_CHUNKING_EVAL=str(corpora))
    assert done.returncode == 0, done.stderr
    assert "changepoint" in done.stdout


@pytest.mark.parametrize(
    "name",
    ["retrieval", *(pytest.param(name, marks=pytest.mark.slow) for name in ("drift", "hybrid", "evaluate"))],
)
def test_missing_data_is_reported_with_the_way_to_get_it(name: str, tmp_path: Path) -> None:
    done = benchmark(name, INGESTOR_CHUNKING_EVAL=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Clone https://" in done.stderr


@pytest.mark.slow
def test_financebench_finds_pages_of_filings_and_explains_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_network(converter: object) -> str:
        raise subprocess.CalledProcessError(1, ["pip"])

    monkeypatch.setattr(financebench, "environment", no_network)
    monkeypatch.setattr(financebench, "KEPT", tmp_path / "kept")
    (tmp_path / "pdfs").mkdir()
    rows = []
    for name, sold, evidence in (
        ("MILL_2021_10K", "stones", "words of another report altogether"),
        ("BOAT_2000_10K", "sails", "sells sails in Oslo"),
    ):
        line = f"The company sells {sold} in {{}} and nowhere else in this year."
        pages = [[(50, 700, 10, line.format(place))] for place in ("Bern", "Oslo", "Rome")]
        (tmp_path / "pdfs" / f"{name}.pdf").write_bytes(pdf(pages))
        where = {"evidence_text": evidence, "evidence_page_num": 1, "doc_name": name}
        rows.append({"doc_name": name, "question": f"Are {sold} sold in Oslo?", "evidence": [where]})
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    financebench._model.cache_clear()
    financebench.main(str(tmp_path), 100, "all")
    financebench._model.cache_clear()
    out = capsys.readouterr().out
    ways = [f"{one}, {way}" for one in financebench.STRATEGIES for way in MODES]
    parts = ("context in front", "words of the page", "our reader: pdfium's lines")
    for words in (
        "2 filings, 100 % of their pages; 2 questions", "LangChain's pipeline is left out", *ways,
        "reader: Are stones sold in Oslo? [MILL_2021_10K page 1]", *(f"\n{each} " for each in parts),
        "held out: 1 question", "development: 1 question",
    ):  # fmt: skip
        assert words in out
    assert "Are sails sold" not in out


def test_financebench_without_filings_names_the_missing_files(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"has no pdfs/\*\.pdf and questions\.jsonl"):
        financebench.main(str(tmp_path))
