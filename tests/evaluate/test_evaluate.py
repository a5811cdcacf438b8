"""Runs ``ingestor evaluate`` as a person does."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from ingestor.config.file import load
from ingestor.evaluate import cutting, stored_report
from ingestor.evaluate.strategies import MOST_COMPARED
from ingestor.state import run_status
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.e2e.test_looking import SAMPLES
from tests.endpoint import Endpoint
from tests.evaluate.scripted_model import BAD


def test_strategies_are_compared_and_one_is_recommended(samples: Project, ask: Ask, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = answered(ask("evaluate", "--json", "--html", str(page)))
    asked = found["questions"]
    assert (asked["origin"], asked["refused"], 100 < asked["count"] < 240) == ("made", [], True)
    assert found["documents"]["count"] == found["documents"]["listed"] == 9
    names = [each["name"] for each in found["strategies"]]
    assert names == [
        *("recursive", "changepoint", "changepoint", "changepoint"),
        *("structure", "recursive", "cluster", "fixed"),
    ]
    assert len(names) == MOST_COMPARED
    for each in found["strategies"]:
        assert set(each) >= {
            "name", "options", "chunks", "mean_tokens", "recall", "recall_n5", "iou_n5", "precision_omega",
            "seconds", "embedded_tokens", "found", "similarity", "deviations_n5", "tokens_n5", "context_n5",
            "to_settle", "mean_characters",
        }  # fmt: skip
        assert 0 <= each["found"]["1"] <= each["found"]["3"] <= each["found"]["5"] <= 100
        assert abs(each["tokens_n5"]["recall"] - each["recall_n5"]) < 5
        assert each["tokens_n5"]["recall_deviation"] > each["deviations_n5"]["iou"] > 0
        assert each["mean_characters"] > 3 * each["mean_tokens"]
        assert 0 < each["similarity"] < 1
        tokens = each["embedded_tokens"]
        whole = each["collection"]
        assert (whole["records"], whole["embedded_tokens"], whole["cost"]) == (each["chunks"], tokens, None)
        assert whole["disk"] > 5000 * whole["records"]
        twice = each["name"] in ("cluster", "fixed") or "vectors" in each["options"]
        # Titles and headings in front of each chunk of 60 tokens or more come on top.
        assert (2 if twice else 1) - 0.2 < each["passes"] < (2 if twice else 1) + 0.7, each
        assert list(each["recall"]) == ["500", "1000", "2000"]
        assert all(0 <= r["low"] <= r["mean"] <= r["high"] <= 100 for r in each["recall"].values())
        assert each["recall"]["500"]["mean"] <= each["recall"]["1000"]["mean"]
    assert len(found["differences"]) == 3 * 8 * 7 / 2
    assert set(found["differences"][0]) >= {"a", "b", "budget", "mean", "low", "high"}
    assert set(found["recommendation"]) == {
        "strategy", "options", "search", "yaml", "sure", "text", "sources",
    }  # fmt: skip
    assert {each["search"] for each in found["strategies"]} == {"dense"}
    said = yaml.safe_load(found["recommendation"]["yaml"])["chunking"]
    assert said == {"strategy": found["recommendation"]["strategy"], **found["recommendation"]["options"]}
    assert not (samples.folder / "chroma").exists()
    state = samples.folder / "state"
    assert {re.split(r"[.-]", path.name)[0] for path in state.iterdir()} == {"cache", "evaluation"}
    assert stored_report.read(state)["docs"].report["recommendation"] == found["recommendation"]
    samples.settings = yaml.safe_load(found["recommendation"]["yaml"])  # can be pasted into the config
    samples.configure()
    options = load(samples.config, {}).chunking.options.model_dump(mode="json")
    assert found["recommendation"]["options"].items() <= options.items()


def test_options_that_all_strategies_have_are_compared_without_a_model(ask: Ask, endpoint: Endpoint) -> None:
    """What is embedded before a chunk, and how much of its neighbours' vectors it has, in the same chunks."""
    same = "recursive:size=100:context"
    names = [f"{same}=none", f"{same}=headings", f"{same}=none:neighbours=0.3"]
    words = ("evaluate", "--json", "--make", "60", "--strategies", ",".join(names))
    found = answered(ask(*words))
    assert found == {**answered(ask(*words)), "strategies": found["strategies"]}  # less the seconds
    assert endpoint.calls == 0, "the config has a language model, which nobody asked for"
    assert (found["judged"], found["language_model"], found["strategies"][0]["judged"]) == (None, None, None)
    assert len({each["chunks"] for each in found["strategies"]}) == 1
    assert len({each["recall_n5"] for each in found["strategies"]}) == 3


def test_planted_bad_strategy_is_replaced_in_the_config(samples: Project, ask: Ask) -> None:
    samples.settings = {"chunking": {"strategy": "kmeans", "clusters": 2, "max_tokens": 2000}}
    samples.configure()
    words = ("evaluate", "--strategies", f"configured,{BAD},recursive:size=100")
    found = answered(ask(*words, "--json"))
    assert [each["configured"] for each in found["strategies"]] == [True, False]  # the same one is taken once
    assert found["recommendation"]["strategy"] == "recursive"
    assert found["recommendation"]["sure"]
    before = load(samples.config, {})
    answer = ask(*words, "--write")
    assert answer.code == 0, answer
    assert f"wrote {samples.config}" in answer.out
    after = load(samples.config, {})
    assert re.search(r"# by `ingestor evaluate --write`: 1\d\d questions", samples.config.read_text())
    assert [source.chunking.plugin.kind for source in after.sources] == ["recursive"]
    assert (before.embedding, before.state, before.chroma) == (after.embedding, after.state, after.chroma)
    again = ask("evaluate", "--write", "--strategies", "configured,fixed:size=2000")
    assert "the config is unchanged" in again.err
    assert load(samples.config, {}) == after


@pytest.mark.slow
def test_collection_is_checked_against_the_recall_that_was_kept(
    samples: Project, ask: Ask, tmp_path: Path
) -> None:
    file = tmp_path / "questions.csv"
    assert ask("sync").code == 0
    kept = ask("evaluate", "--strategies", "configured", "--make", "40", "--keep-questions", str(file))
    assert kept.code == 0, kept
    first = answered(ask("evaluate", "--check", str(file), "--json"))
    assert (first["passed"], first["compared"], first["questions"]["count"]) == (True, False, 40)
    evaluated = answered(ask("evaluate", "--questions", str(file), "--strategies", "configured", "--json"))
    assert first["recall"]["mean"] == pytest.approx(
        evaluated["strategies"][0]["recall"]["500"]["mean"], abs=2
    )
    same = answered(ask("evaluate", "--check", str(file), "--json"))
    assert (same["compared"], same["fell"], same["worst"]) == (True, 0, [])
    samples.settings = {
        "chunking": {"strategy": "kmeans", "clusters": 2, "max_tokens": 2000},
        "rechunk": "in_place",
    }
    samples.configure()
    assert ask("sync").code == 0
    worse = ask("evaluate", "--check", str(file))
    assert worse.code == 4, worse
    assert "more than the tolerance of 2.0" in worse.out
    (noted,) = run_status.read_checks(samples.folder / "state")
    assert (noted.collection, noted.questions, noted.passed) == ("docs", "questions.csv", False)
    assert noted.fell > 0.02
    assert ask("evaluate", "--check", str(file), "--tolerance", "100").code == 0
    assert ask("evaluate", "--check", str(file), "--accept").code == 0
    level = ask("evaluate", "--check", str(file))
    assert (level.code, "Recall has not changed since the stored check: within" in level.out) == (0, True)
    other = ask("evaluate", "--check", str(file), "--budget", "700")
    assert other.code == 2
    assert "--accept" in other.err


def test_questions_are_kept_edited_and_used_again(samples: Project, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    words = ("--strategies", "recursive:size=80,fixed:size=80", "--make", "30")
    first = ask("evaluate", *words, "--keep-questions", str(file))
    assert first.code == 0, first
    assert "30 questions about" in first.out
    with file.open("a", encoding="utf-8") as stream:
        stream.write("When is the store open?,no such sentence at all,cooperative/faq.md,\n")
        stream.write("What is a fungus in still air?,in wet still air,growing/glossary.md,\n")
    again = answered(ask("evaluate", "--json", *words, "--questions", str(file), "--sample", "1"))
    assert again["questions"]["count"] == 31
    assert again["questions"]["origin"] == "mixed"
    assert [each["reason"] for each in again["questions"]["refused"]] == [
        "the excerpt is not in the text that was read"
    ]
    assert again["documents"]["count"] > 1  # those that the file names are read, whatever the sample


def test_single_question_shows_no_difference(samples: Project, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text("question,excerpt\nWhat is a fungus in still air?,in wet still air\n")
    answer = ask("evaluate", "--questions", str(file), "--strategies", "configured,fixed:size=200")
    assert f"1 question about 1 document, from {file}; searched: all 9 documents." in answer.out
    assert "One question cannot show a difference: ask 20 at least." in answer.out


def test_interrupted_run_names_resume_command(
    samples: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cutting, "_chunk", interrupted)
    answer = ask("evaluate")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "interrupted: run the same command again to resume\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no source feeds a collection 'nowhere'; known: docs"),
        (["--budget", "many"], "--budget 'many' is not a list of numbers of tokens"),
        (["--strategies", "fixed:size=x"], "size"),
        (["--strategies", "sliced"], "sliced"),
        (["--questions", "missing.csv"], "missing.csv cannot be read"),
        (
            ["--search", "dense,telepathy"],
            "--search 'dense,telepathy' is not a list of modes (hybrid, dense, lexical)",
        ),
        (["--ask-model"], "set language_model"),
        (["--ask-model", "--questions", "a.csv"], "exclude each other"),
        (["--estimate"], "--estimate needs"),
        (["--models", "a", "--write"], "--models and --write exclude each other"),
    ],
)
def test_words_that_make_no_sense_are_refused(
    samples: Project, ask: Ask, words: list[str], message: str
) -> None:
    answer = ask("evaluate", *words)
    assert answer.code == 2, answer
    assert message in answer.err


def test_documents_unreadable_are_reported_and_skipped(settled: Project, ask: Ask) -> None:
    (settled.docs / "a.pdf").write_bytes(b"%PDF-1.7 and no more")
    (settled.docs / "empty.txt").write_text("\n")
    shutil.copy(SAMPLES / "kitchen" / "bread.md", settled.docs)
    found = answered(ask("evaluate", "--json", "--strategies", "fixed,recursive"))
    assert {each["document"] for each in found["documents"]["unread"]} == {"a.pdf", "empty.txt"}
    (settled.docs / "bread.md").unlink()
    nothing = ask("evaluate")
    assert nothing.code == 4
    assert "no document of collection 'docs' could be read" in nothing.err


def test_page_shows_hostile_text_as_text(settled: Project, ask: Ask, tmp_path: Path) -> None:
    lines = (
        f"If line {n} says <script>alert{n}</script>, nobody reads the {n} words below." for n in range(40)
    )
    (settled.docs / "bad.txt").write_text("\n\n".join(lines))
    page = tmp_path / "page.html"
    words = ("--strategies", "fixed:size=20,recursive:size=60", "--budget", "20,50")
    assert ask("evaluate", *words, "--html", str(page)).code == 0
    html = page.read_text("utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "<svg" in html
    assert "http" not in html.replace("http-equiv", "")


@pytest.mark.slow
def test_collection_and_its_journal_stay_as_they_are(settled: Project, ask: Ask) -> None:
    shutil.copy(SAMPLES / "kitchen" / "bread.md", settled.docs)
    assert ask("sync").code == 0
    file = settled.folder / "state" / "journal.sqlite3"
    before, journal = written(settled), file.read_bytes()
    assert ask("evaluate", "--strategies", "recursive:size=60,fixed").code == 0
    assert (written(settled), (settled.folder / "state" / "journal.sqlite3").read_bytes()) == (
        before,
        journal,
    )


def written(project: Project) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in project.records())


@pytest.mark.slow
def test_packaged_model_prefers_what_it_should(samples: Project, ask: Ask) -> None:
    samples.settings = {"embedding": {}, "chunking": {"strategy": "kmeans"}}
    samples.configure()
    found = answered(ask("evaluate", "--json", "--strategies", "configured,changepoint"))
    assert found["recommendation"]["strategy"] == "changepoint"


# --- embedding models are compared as strategies are --------------------------------------------------------

MODELS = "hashing:dimensions=8,hashing:dimensions=512"
POOR, GOOD = MODELS.split(",")


def test_models_are_compared_by_the_same_questions_of_a_model(ask: Ask, endpoint: Endpoint) -> None:
    words = ("evaluate", "--models", MODELS, "--ask-model", "--make", "40")
    expected = answered(ask(*words, "--json", "--estimate"))
    assert (endpoint.calls, expected["calls"]) == (0, 40)
    first = ask(*words, "--json")
    assert re.search(r"language model scripted: about 40 requests, .* costs about", first.err)
    found = answered(first)
    sent, (poor, good) = found["language_model"], found["strategies"]
    assert (sent["calls"], sent["expected"]) == (endpoint.calls, expected)
    assert sent["cost"] == pytest.approx(endpoint.calls * (10 * 2 + 2 * 10) / 1e6)
    assert (poor["model"], good["model"]) == (POOR, GOOD)
    assert good["label"] == f"{poor['label'].removesuffix(f' by {POOR}')} by {GOOD}"
    assert poor["chunks"] == good["chunks"]
    assert good["recall"]["500"]["mean"] > poor["recall"]["500"]["mean"] + 20
    assert (found["recommendation"]["sure"], poor["configured"], good["configured"]) == (True, False, False)
    assert f"{good['label']} finds most" in found["recommendation"]["text"]
    shown = ask(*words)
    assert "embedding:\n  kind: hashing\n  dimensions: 512\n" in shown.out
    assert endpoint.calls == sent["calls"], "each question is requested once"


@pytest.mark.slow
def test_ways_of_search_are_compared_for_the_same_chunks(samples: Project, ask: Ask) -> None:
    words = ("--json", "--strategies", "configured,fixed:size=200", "--make", "80")
    found = answered(ask("evaluate", *words, "--search", "dense,hybrid"))
    names = [(each["name"], each["search"], each["chunks"]) for each in found["strategies"]]
    assert [mode for _, mode, _ in names] == ["dense", "hybrid"] * 2
    assert names[0][2] == names[1][2]
    recall = [each["recall"]["500"]["mean"] for each in found["strategies"]]
    assert recall[1] > recall[0] + 5  # made questions have the words of the text
    assert found["differences"][0]["a"] == "recursive:size=60:search=dense"
    assert found["differences"][0]["b"] == "recursive:size=60:search=hybrid"
    assert found["recommendation"]["search"] == "hybrid"
    assert "search=hybrid finds" in found["recommendation"]["text"]
    assert "helps search by words: ask real ones" in found["recommendation"]["text"]
    one = ask("evaluate", "--strategies", "configured", "--make", "80", "--search", "dense,hybrid")
    assert "search=hybrid finds" in one.out and "For the config" not in one.out
    alone = answered(ask("evaluate", *words))
    assert [each["recall"] for each in alone["strategies"]] == [
        each["recall"] for each in found["strategies"][::2]
    ]
