"""Tables for all strategies: golden chunks, and options that are refused."""

import pytest

from ingestor.registry import find
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import Options, cut, refusal
from tests.chunkers.scripted import ENDPOINT

PROSE = ("hydroponics.md", "scripts.txt")
GOLDEN: list[tuple[str, Options, tuple[str, ...]]] = [
    ("fixed", {"size": 100, "overlap": 25}, PROSE),
    ("sentence", {"max_sentences": 5, "overlap": 1}, PROSE),
    ("paragraph", {}, PROSE),
    ("hybrid", {"max_size": 400}, PROSE),
    ("recursive", {"size": 100}, PROSE),
    ("dynamic", {"max_tokens": 120}, PROSE),
    ("hierarchical", {"max_tokens": 60}, ("hydroponics.md",)),
    ("kmeans", {"clusters": 3}, ("scripts.txt",)),
    ("structure", {"max_tokens": 120}, (*PROSE, "roots.tex", "lamps.rst", "pump.py")),
]


@pytest.mark.parametrize(
    ("strategy", "options", "name"),
    [(strategy, options, name) for strategy, options, names in GOLDEN for name in names],
)
def test_chunks_equal_the_golden_file(strategy: str, options: Options, name: str) -> None:
    check(f"{strategy}-{name}", cut(find("chunkers", strategy), sample(name), **options))


PASSAGE = {"name": "passage", "unit": "paragraph", "max_tokens": 120}
SENTENCES = {"name": "sentences", "unit": "sentence", "max_tokens": 40}


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("fixed", {"size": 50, "overlap": 50}, "overlap (50) must be smaller than size (50)"),
        ("fixed", {"size": 3}, "greater than or equal to 4"),
        ("fixed", {"overlap": -1}, "greater than or equal to 0"),
        ("fixed", {"unit": "words"}, "'tokens' or 'characters'"),
        ("fixed", {"overlap": 5, "neighbours": 0.3}, "`neighbours` needs `overlap: 0`"),
        ("fixed", {"min_tokens": 90, "max_tokens": 80}, "min_tokens (90) must not exceed max_tokens (80)"),
        ("fixed", {"sizes": 5}, "Extra inputs are not permitted"),
        (
            "sentence",
            {"max_sentences": 2, "overlap": 2},
            "(2) must be smaller than max_sentences (2)",
        ),
        ("sentence", {"max_sentences": 0}, "greater than or equal to 1"),
        ("sentence", {"neighbours": 0.3}, "`neighbours` needs `overlap: 0`"),
        ("paragraph", {"max_paragraphs": 1}, "overlap (1) must be smaller than max_paragraphs (1)"),
        ("hybrid", {"max_size": 100}, "overlap (100) must be smaller than max_size (100)"),
        ("hybrid", {"max_size": 20}, "greater than or equal to 50"),
        ("recursive", {"size": 50, "overlap": 60}, "overlap (60) must be smaller than size (50)"),
        ("recursive", {"separators": ()}, "`separators` must be a list of one or more"),
        ("recursive", {"separators": (" ", " ")}, "one or more different texts"),
        ("recursive", {"min_tokens": 201}, "min_tokens (201) must not exceed size (200)"),
        ("recursive", {"overlap": 5, "neighbours": 0.3}, "`neighbours` needs `overlap: 0`"),
        ("dynamic", {"min_tokens": 60, "max_tokens": 100}, "(100) must be at least twice min_tokens (60)"),
        ("hierarchical", {"levels": [PASSAGE]}, "at least 2 items"),
        (
            "hierarchical",
            {"levels": [SENTENCES, PASSAGE]},
            "max_tokens of level 'passage' must not exceed those of level 'sentences'",
        ),
        ("hierarchical", {"levels": [PASSAGE, PASSAGE]}, "levels must have different names"),
        (
            "hierarchical",
            {"levels": [{**SENTENCES, "max_tokens": 200}, PASSAGE]},
            "level 'passage' (unit paragraph) can't be inside level 'sentences' (unit sentence)",
        ),
        (
            "hierarchical",
            {"min_tokens": 101},
            "min_tokens (101) must not exceed max_tokens of the last level",
        ),
        (
            "hierarchical",
            {"levels": [PASSAGE, {**SENTENCES, "unit": "word"}]},
            "'section', 'paragraph' or 'sentence'",
        ),
        ("similarity", {"unit": "word"}, "'sentence' or 'paragraph'"),
        ("breakpoint", {"threshold": "median"}, "'percentile'"),
        ("breakpoint", {"amount": 101}, "less than or equal to 100"),
        ("breakpoint", {"buffer": -1}, "greater than or equal to 0"),
        ("cluster", {"min_tokens": 60, "max_tokens": 50}, "must not exceed"),
        ("cluster", {"drift": 0.1, "scope": "document"}, "`drift` needs `scope: collection`"),
        ("cluster", {"scope": "corpus"}, "'collection' or 'document'"),
        ("cluster", {"vectors": "averaged"}, "'encoded' or 'pooled'"),
        ("changepoint", {"target": 2}, "greater than or equal to 4"),
        ("changepoint", {"penalty": 0}, "greater than 0"),
        ("changepoint", {"penalty": "none"}, "'auto'"),
        ("changepoint", {"scope": "corpus"}, "'collection' or 'document'"),
        ("changepoint", {"drift": 0.1, "scope": "document"}, "`drift` needs `scope: collection`"),
        ("changepoint", {"drift": 0.1, "penalty": 2}, "`drift` needs `scope: collection`"),
        ("llm", {"model": "m"}, "base_url"),
        ("llm", {"base_url": "http://x/v1"}, "model"),
        ("llm", {**ENDPOINT, "fallback": "llm"}, "'recursive' or 'cluster'"),
        ("llm", {**ENDPOINT, "window": 50}, "greater than or equal to 100"),
        ("llm", {**ENDPOINT, "base_url": "x"}, "must be an address"),
        ("proposition", {}, "base_url"),
        ("proposition", {**ENDPOINT, "passage": 5}, "greater than or equal to 20"),
        ("proposition", {**ENDPOINT, "min_tokens": 300}, "(300) must not exceed max_tokens (250)"),
        ("auto", {"prose": 3}, "must be a strategy's name, or a mapping with `strategy` and its options"),
        ("auto", {"prose": {"size": 5}}, "must be a strategy's name, or a mapping with `strategy`"),
        ("auto", {"prose": {"strategy": "auto"}}, "must be a strategy other than `auto`"),
        ("auto", {"prose": {"strategy": "recursiv"}}, "unknown chunker 'recursiv'; installed: "),
        ("auto", {"code": {"strategy": "fixed", "size": 1}}, "fixed: size: Input should be greater than"),
        ("auto", {"code": {"strategy": "fixed", "sice": 1}}, "fixed: sice: Extra inputs are not permitted"),
        (
            "auto",
            {"code": {"strategy": "fixed", "size": 9, "overlap": 9}},
            "overlap (9) must be smaller than",
        ),
        (
            "auto",
            {"code": {"strategy": "fixed", "version": 99}},
            "the installed strategy fixed has version 2, not that of the recipe",
        ),
        (
            "auto",
            {"prose": {"strategy": "cluster", "scope": "collection"}},
            "prose: `scope` must be `document`",
        ),
        ("auto", {"code": {"strategy": "fixed", "context": "title"}}, "`context` must be the same for all"),
        ("auto", {"code": {"strategy": "fixed", "neighbours": 0.1}}, "`neighbours` must be the same for all"),
        ("auto", {"neighbours": 0.1, "prose": {"strategy": "sentence"}}, "`neighbours` needs `overlap: 0`"),
        ("auto", {"prose": {"strategy": "llm", "model": "m"}}, "llm: base_url: Field required"),
        ("auto", {"blocks": {"strategy": "fixed"}}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_make_no_sense_are_refused(strategy: str, options: Options, message: str) -> None:
    assert message in refusal(find("chunkers", strategy), options)
