"""Tables for all strategies: golden chunks, and options that are refused (``refused.tsv``)."""

import json
from pathlib import Path

import pytest

from ingestor.registry import find
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import Options, cut, refusal

PROSE = ("hydroponics.md", "scripts.txt")
GOLDEN: list[tuple[str, Options, tuple[str, ...]]] = [  # with an option, if the files' names have one
    ("fixed", {"size": 100, "overlap": 25}, PROSE),
    ("sentence", {"max_sentences": 5, "overlap": 1}, PROSE),
    ("paragraph", {}, PROSE),
    ("hybrid", {"max_size": 400}, PROSE),
    ("recursive", {"size": 100}, PROSE),
    ("dynamic", {"max_tokens": 120}, PROSE),
    ("hierarchical", {"max_tokens": 60}, ("hydroponics.md",)),
    ("kmeans", {"clusters": 3}, ("scripts.txt",)),
    ("structure", {"max_tokens": 120}, (*PROSE, "roots.tex", "lamps.rst", "pump.py")),
    ("structure-max_tokens", {"max_tokens": 50}, ("hydroponics.md",)),
    ("structure-max_tokens", {"max_tokens": 60}, ("pump.py",)),
    ("structure-depth", {"depth": 2}, ("lamps.rst",)),
    ("hierarchical-depth", {"depth": 2, "max_tokens": 60}, ("hydroponics.md",)),
]


@pytest.mark.parametrize(
    ("strategy", "options", "name"),
    [(strategy, options, name) for strategy, options, names in GOLDEN for name in names],
)
def test_chunks_equal_the_golden_file(strategy: str, options: Options, name: str) -> None:
    check(f"{strategy}-{name}", cut(find("chunkers", strategy.partition("-")[0]), sample(name), **options))


REFUSED = [
    line.split("\t") for line in (Path(__file__).parent / "refused.tsv").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(("strategy", "options", "message"), REFUSED, ids=range(len(REFUSED)))
def test_options_that_make_no_sense_are_refused(strategy: str, options: str, message: str) -> None:
    assert message in refusal(find("chunkers", strategy), json.loads(options))
