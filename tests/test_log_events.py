"""Events of the log: every call names one, and docs/log.md explains each."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import get_args

from ingestor.core.events import Event
from tests.program import ROOT, modules, nodes

LOGGING = ("debug", "info", "warning", "error", "exception", "critical", "log")
LONGEST = 100  # characters of a line without its time, level and values


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """List all calls of loggers with their place, but for those of connectors, which name no events."""
    found = list[tuple[str, ast.Call]]()
    for file, tree in modules().items():
        for node in nodes(tree) if not file.is_relative_to("ingestor/connectors") else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LOGGING
            ):
                owner = ast.unparse(node.func.value)
                if owner in ("log", "_log") or "getLogger" in owner:
                    found.append((f"{file}:{node.lineno}", node))
    return found


def test_every_log_call_has_an_event() -> None:
    missing = [place for place, call in calls() if "extra" not in {each.arg for each in call.keywords}]
    assert missing == []
    assert len(calls()) > 60


def messages() -> Iterator[tuple[str, ast.expr]]:
    """Yield arguments of log calls, and what is named ``words`` before such a call."""
    for place, call in calls():
        yield from ((place, each) for each in call.args)
    for file, tree in modules().items():
        for node in nodes(tree):
            if isinstance(node, ast.Assign) and "words" in map(ast.unparse, node.targets):
                yield f"{file}:{node.lineno}", node.value


def test_messages_without_their_values_fit_a_line() -> None:
    texts = {
        place: re.sub(r"%[\w.]+", "", each.value)
        for place, each in messages()
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    assert {place: text for place, text in texts.items() if len(text) >= LONGEST} == {}


def test_docs_explain_exactly_the_events() -> None:
    rows = [
        line.split("|")[1] for line in (ROOT / "docs/log.md").read_text().splitlines() if line[:3] == "| `"
    ]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(get_args(Event))
