"""Which strategies are compared, what they are called, and the words of ``--strategies`` and ``--models``."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from ingestor.cli.chunk_command import choice
from ingestor.cli.evaluate_command import read_models, read_strategies
from ingestor.config.file import load
from ingestor.config.models import ConfigError
from ingestor.evaluate.strategies import Strategy, distinct, most_common_strategy, worth_comparing
from ingestor.model import Block, CollectionName, Document, SourceName
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.endpoint import Reply, serving


def strategy(name: str) -> Strategy:
    kind, *options = name.split(":")
    return strategy_of(kind, options, {})


def strategy_of(kind: str, options: list[str], kept: dict[str, Any]) -> Strategy:
    return Strategy(choice(kind, options, kind, kept))


@pytest.mark.parametrize(
    "name",
    ["changepoint", "changepoint:target=125", "recursive", "recursive:size=100", "fixed:overlap=5", "auto"],
)
def test_strategy_name_shows_given_options(name: str) -> None:
    assert strategy(name).name == name
    kind, *options = name.split(":")
    given = {key: int(value) for key, value in (option.split("=") for option in options)}
    assert yaml.safe_load(strategy(name).yaml) == {"chunking": {"strategy": kind, **given}}


def test_yaml_of_a_strategy_has_all_that_a_config_needs() -> None:
    """An address is no part of a recipe, and a secret is not shown."""
    given = {"base_url": "http://127.0.0.1:80/v1", "model": "small", "prompt_price": 0.5}
    words = [f"{key}={value}" for key, value in given.items()]
    found = strategy_of("llm", words, {"api_key": SecretStr("very secret")})
    assert found.name == "llm:model=small"
    assert yaml.safe_load(found.yaml)["chunking"] == {"strategy": "llm", **given, "api_key": "${API_KEY}"}
    assert found.models == ["small"]


@pytest.mark.parametrize(("name", "models"), [("auto", []), ("auto:prose.model=a", ["a"])])
def test_language_models_of_a_pick_are_known(name: str, models: list[str]) -> None:
    kept = {"prose": {"strategy": "llm", "base_url": "http://127.0.0.1:80/v1"}} if models else {}
    assert strategy_of("auto", name.split(":")[1:], kept).models == models


def test_other_strategies_have_about_the_configured_size() -> None:
    prose = Document("Words.")
    heads = (Block("heading", 0, 2, 1, "A"), Block("heading", 3, 5, 1, "B"))
    base = strategy("recursive:size=200")
    names = [each.name for each in worth_comparing(base, 137.0, [prose])]
    assert names == [
        "changepoint:target=125", "changepoint:target=250", "cluster:max_tokens=250",
        "fixed:overlap=125:size=250",
    ]  # fmt: skip
    assert {"structure:max_tokens=250", "changepoint:vectors=encoded:target=125"} <= {
        each.name for each in worth_comparing(base, 137.0, [Document("# A\n\n# B\n", heads)])
    }


def test_sources_that_are_cut_otherwise_keep_their_own() -> None:
    own = {name: strategy(kind).choice for name, kind in [("a", "fixed"), ("b", "recursive"), ("c", "fixed")]}
    found = most_common_strategy({SourceName(name): choice for name, choice in own.items()})
    assert found.of(SourceName("a")).plugin.kind == found.of(SourceName("new")).plugin.kind == "fixed"
    assert found.of(SourceName("b")).plugin.kind == "recursive"
    assert len(distinct([found, strategy("fixed"), strategy("fixed:size=200")])) == 2


def strategies(project: Project, words: str) -> list[Strategy]:
    return read_strategies(load(project.config, {}), CollectionName("docs"), [words])


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("recursive:size=100:search=hybrid", "recursive:size=100:search=hybrid"),
        ("fixed:search=lexical:size=50", "fixed:size=50:search=lexical"),
        ("configured:neighbours=0.3", "recursive:neighbours=0.3:size=60"),
        ("configured:parsing.html.links=true", "recursive:size=60:parsing.html.links=true"),
        (
            "fixed:rerank.url=http://127.0.0.1:80/a:rerank.hits=9",
            "fixed:rerank.url=http://127.0.0.1:80/a:rerank.hits=9",
        ),
        ("fixed:parsing.types={'*.log': markdown, '*.txt': rst}", None),
        ("recursive:separators=['a', 'b']", None),
    ],
)
def test_word_names_one_strategy(project: Project, word: str, name: str | None) -> None:
    (found,) = strategies(project, word)
    assert found.name == (name or word)
    assert not found.configured


def test_yaml_has_settings_beside_the_chunking(project: Project) -> None:
    words = "configured:parsing.html.links=true:rerank.url=http://h/r:rerank.hits=9:search=hybrid"
    (found,) = strategies(project, words)
    assert yaml.safe_load(found.yaml) == {
        "chunking": {"strategy": "recursive", "size": 60},
        "parsing": {"html": {"links": True}},
        "search": {"rerank": {"url": "http://h/r", "hits": 9}},
    }
    assert found.beside.rerank is not None
    assert (found.beside.search, found.beside.rerank.hits) == ("hybrid", 9)


def test_options_of_a_parser_leave_its_others_as_they_are(project: Project) -> None:
    project.source = {"parsing": {"odf": {"comments": True}}}
    project.configure()
    (found,) = strategies(project, "configured:parsing.odf.hidden_sheets=true")
    (source,) = load(project.config, {}).sources
    (choice,) = found.beside.read(source).parsing
    assert choice.options.model_dump() == {"comments": True, "hidden_sheets": True}


def test_equal_strategies_are_compared_once(project: Project) -> None:
    words = "configured,recursive:size=60,configured:search=dense,recursive:search=dense:size=60"
    assert [each.name for each in strategies(project, words)] == [
        "recursive:size=60",
        "recursive:size=60:search=dense",
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("fixed:size", "'size' is not KEY=VALUE"),
        ("fixed:sise=5", "sise"),
        ("fixed:search=telepathy", "search must be one of hybrid, dense, lexical"),
        ("fixed:search.rerank.model=x", "rerank.model=… sets a reranker"),
        ("fixed:rerank=true", "the config has no search.rerank: write rerank.model=… or rerank.url=…"),
        ("fixed:rerank=best", "rerank must be true or false"),
        ("fixed:rerank.hits=5", "rerank"),
        ("fixed:rerank.hits=many:rerank.model=x", "hits"),
        ("fixed:rerank.url=http://h:rerank.api_key=abc", "must not be in plain text"),
        ("fixed:parsing=html", "write parsing.KIND.OPTION=VALUE"),
        ("fixed:parsing.html=true", "write parsing.KIND.OPTION=VALUE"),
        ("fixed:parsing.word.links=true", "word"),
        ("fixed:parsing.html.link=true", "links"),
        ("fixed:parsing.types={'*.txt': pdf}", "must be a text parser"),
    ],
)
def test_strategy_mistakes_are_explained(project: Project, ask: Ask, word: str, message: str) -> None:
    answer = ask("evaluate", "--strategies", word)
    assert answer.code == 2, answer
    assert f"--strategies {word.partition(':')[0]}" in answer.err
    assert message in answer.err


@pytest.mark.slow
def test_reranker_is_compared(samples: Project, ask: Ask) -> None:
    """One that prefers what has the question's words finds more than vectors alone, and has its own row."""

    def rerank(body: dict[str, object]) -> Reply:
        query, texts = set(str(body["query"]).lower().split()), body["texts"]
        assert isinstance(texts, list)
        scores = [len(query & set(text.lower().split())) for text in texts]
        return Reply(body=json.dumps([{"index": at, "score": s} for at, s in enumerate(scores)]).encode())

    with serving(rerank) as server:
        words = f"configured,configured:rerank.url={server.base_url}:rerank.hits=50"
        found = answered(ask("evaluate", "--json", "--make", "60", "--strategies", words))
        first, *others = server.bodies
        assert (len(others), {len(body["texts"]) for body in others}) == (60, {50})
        table = ask("evaluate", "--make", "60", "--strategies", words)
        assert server.bodies[61:] == [first]  # which asks whether it is the same reranker
    assert "rerank s a question" in table.out
    plain, reranked = found["strategies"]
    assert (plain["rerank_seconds"], reranked["rerank_seconds"] > 0) == (None, True)
    assert reranked["chunks"] == plain["chunks"]
    assert reranked["recall"]["500"]["mean"] > plain["recall"]["500"]["mean"]
    assert (plain["configured"], reranked["configured"]) == (True, False)
    with serving(lambda body: Reply(body=b"{}")) as broken:
        answer = ask("evaluate", "--strategies", f"configured:rerank.url={broken.base_url}")
    assert answer.code != 0  # and is not compared as if it did nothing
    assert "did not answer as a reranker does" in answer.err


PARAGRAPHS = [
    f"Mill number {n} of the valley has {n} wheels, and its keeper opens the sluice each morning at {n}."
    for n in range(3, 15)
]


@pytest.fixture
def pages(settled: Project) -> Project:
    """A web page with a long paragraph that its main content does not have."""
    side = " ".join(f"Ferry {n} crosses the river {n} times a day." for n in range(3, 20))
    body = "".join(f"<p>{each}</p>" for each in PARAGRAPHS)
    html = f"<html><body><nav><p>{side}</p></nav><main><h1>Mills</h1>{body}</main></body></html>"
    (settled.docs / "mills.html").write_text(html)
    return settled


def test_options_of_parsers_are_compared(pages: Project, ask: Ask, tmp_path: Path) -> None:
    file, page = tmp_path / "questions.csv", tmp_path / "page.html"
    with file.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(("question", "excerpt"))
        out.writerow(("How often does ferry 9 go?", "Ferry 9 crosses the river 9 times a day."))
        out.writerows((f"When does mill {n} open?", each) for n, each in enumerate(PARAGRAPHS, start=3))
        out.writerow(("Who?", "No page says this at all."))
    words = "configured,configured:parsing.html.mode=full"
    asked = ("--questions", str(file), "--budget", "10000", "--html", str(page))
    found = answered(ask("evaluate", "--json", "--strategies", words, *asked))
    main, every = (each["recall"]["10000"]["mean"] for each in found["strategies"])
    assert found["questions"]["count"] == 13
    assert [each["question"] for each in found["questions"]["refused"]] == ["Who?"]
    assert every == 100  # as much is retrieved as there is
    assert main == pytest.approx(100 * 12 / 13, abs=0.01)  # the ferry is not in what it reads, and counts
    assert page.read_text().count("Not in what it reads.") == 1
    made = answered(ask("evaluate", "--json", "--strategies", words))  # of what both read
    assert made["questions"]["count"] > 5
    assert [each["recall"]["2000"]["mean"] > 99 for each in made["strategies"]] == [True, True]


def test_recommendation_of_more_than_chunking_is_pasted_by_hand(pages: Project, ask: Ask) -> None:
    before = pages.config.read_bytes()
    answer = ask("evaluate", "--write", "--strategies", "fixed:parsing.html.mode=full")
    assert answer.code == 4, answer
    assert "copy the printed YAML into it" in answer.err
    assert "parsing:\n  html:\n    mode: full" in answer.out
    assert pages.config.read_bytes() == before
    same = ask("evaluate", "--write", "--strategies", "configured:search=hybrid")
    assert (same.code, pages.config.read_bytes()) == (0, before)
    assert "the config is unchanged" in same.err


def test_models_are_names_of_the_configured_kind_or_embedders_with_options(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = "sources: [{name: notes, kind: folder, path: notes, collection: docs}]\n"
    (tmp_path / "notes").mkdir()
    file.write_text(source + "embedding: {kind: openai, base_url: 'http://a.example/v1', model: one}\n")
    config = load(file, {})
    server = "openai:base_url=http://b.example:8081/v1:model=three"
    models = read_models(config, f"one,two,{server},sentence-transformers:model=./four,hashing")
    assert list(models) == ["one", "two", "three", "./four", "hashing"]
    assert models["one"] == config.embedding
    addresses = [getattr(each.options, "base_url", None) for each in models.values()]
    assert addresses == ["http://a.example/v1", "http://a.example/v1", "http://b.example:8081/v1", None, None]
    file.write_text(source)
    (one,) = read_models(load(file, {}), "intfloat/e5-small").values()
    assert (one.plugin.kind, one.options.model) == ("sentence-transformers", "intfloat/e5-small")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="--models openai:model=one"):
        read_models(load(file, {}), "openai:model=one")
