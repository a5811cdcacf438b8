"""``ingestor evaluate``: words to a request, an evaluation to text."""

import json
import sys
from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from time import time
from typing import Any

from ingestor.app.queries import BadRequest
from ingestor.cli.output import evaluation as output
from ingestor.cli.strategy_words import named
from ingestor.config.models import Config
from ingestor.evaluate import kept
from ingestor.evaluate.adopt import adopt, recommend
from ingestor.evaluate.check import Inspection, check
from ingestor.evaluate.evaluation import Evaluation, estimate_requests, evaluate
from ingestor.evaluate.report import as_json as report_json
from ingestor.evaluate.report import check_as_json as check_json
from ingestor.evaluate.report import estimate_as_json
from ingestor.evaluate.shown.page import page
from ingestor.evaluate.workplace import EvaluationRequest
from ingestor.model import CollectionName
from ingestor.search.values import MODES, Mode
from ingestor.units import counted


def request_of(
    config: Config, collection: str | None, strategies: Sequence[str], budget: str, search: str, **others: Any
) -> EvaluationRequest:
    """``others``: fields of the request. Raises BadRequest and ConfigError for words that make no sense."""
    name = _collection(config, collection)
    chosen = tuple(named(config, name, strategies))
    return EvaluationRequest(name, chosen, budgets=_budgets(budget), modes=_modes(search), **others)


def run(config: Config, request: EvaluationRequest, html: Path | None, *, write: bool, as_json: bool) -> None:
    """Run the command."""
    with output.progress(as_json) as progress:
        found = evaluate(config, request, progress, lambda one: print(one.text, file=sys.stderr))
    report = report_json(found)
    kept.write(config.state, report, time())
    if html is not None:
        frame = files("ingestor").joinpath("templates", "evaluate.html").read_text("utf-8")
        html.write_text(page(found, frame), "utf-8")
    if as_json:
        print(json.dumps(report))
    else:
        output.show(found)
    changed = _written(config, found) if write else None
    for written in filter(None, (html, request.keep, changed)):
        print(f"wrote {written}", file=sys.stderr if as_json else sys.stdout)


def run_estimate(config: Config, request: EvaluationRequest, *, as_json: bool) -> None:
    """Run the command with ``--estimate``."""
    with output.progress(as_json) as progress:
        found = estimate_requests(config, request, progress)
    print(json.dumps(estimate_as_json(found)) if as_json else found.text)


def run_check(
    config: Config,
    collection: str | None,
    questions: Path,
    sample: int,
    budget: str,
    tolerance: float,
    *,
    accept: bool,
    as_json: bool,
) -> bool:
    """Run the command with ``--check``. Return whether recall is within the tolerance, in points."""
    name = _collection(config, collection)
    asked = Inspection(name, questions, sample, _budgets(budget)[0], tolerance / 100, accept)
    with output.progress(as_json) as progress:
        found = check(config, asked, progress, time())
    if as_json:
        print(json.dumps(check_json(found)))
    else:
        output.show_check(found)
    return found.passed


def _written(config: Config, found: Evaluation) -> Path | None:
    wanted = recommend(config, found)
    if not wanted:
        print("the config is unchanged", file=sys.stderr)
        return None
    questions = f"{counted(len(found.questions), 'question')}, {date.today():%Y-%m-%d}"
    return adopt(config, wanted, f"by `ingestor evaluate --write`: {questions}")


def _collection(config: Config, wanted: str | None) -> CollectionName:
    known = sorted(config.collections)
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted is None:
        raise BadRequest(f"name a collection: {', '.join(known)}")
    if wanted not in known:
        raise BadRequest(f"no source feeds a collection {wanted!r}; known: {', '.join(known)}")
    return CollectionName(wanted)


def _budgets(given: str) -> tuple[int, ...]:
    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= 1_000_000 for word in words):
        raise BadRequest(f"--budget {given!r} is no list of tokens, as in 500,1000,2000")
    return tuple(dict.fromkeys(map(int, words)))


def _modes(given: str) -> tuple[Mode, ...]:
    words = [word.strip() for word in given.split(",")]
    found: tuple[Mode, ...] = tuple(mode for mode in MODES if mode in words)
    if not found or not set(words) <= set(MODES):
        raise BadRequest(f"--search {given!r} is no list of {', '.join(MODES)}")
    return tuple(sorted(found, key=words.index))
