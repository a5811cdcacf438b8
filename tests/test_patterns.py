"""No regular expression of the project takes more than linear time, whatever it is given.

While one is matched nothing else runs in the process, signal handlers included. Inputs are made of the
characters of each expression. The bound is hundreds of times what the slowest needs: it separates quadratic
from linear, not slow machines from fast ones.

``python -m tests.test_patterns LENGTH SECONDS`` prints those that take more CPU seconds.
"""

import importlib
import itertools
import pkgutil
import re
import re._constants as codes  # type: ignore[import-untyped]
import re._parser as parser  # type: ignore[import-untyped]
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.bounded import printed

pytestmark = pytest.mark.slow
LENGTH = 10_000
SECONDS = 0.3  # of processor time, for one text of that length
_METHODS = "match|fullmatch|search|finditer|findall|sub|subn|split"
_SAMPLES = {codes.CATEGORY_DIGIT: "0", codes.CATEGORY_SPACE: " ", codes.CATEGORY_NOT_WORD: "!"}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
MATCHED = {  # handed on, to be matched at the beginning of lines
    "ingestor.parsers.markup.org._COMMENT",
    "ingestor.parsers.markup.org._FIXED",
    "ingestor.parsers.markup.rst._ITEM",
    "ingestor.parsers.markup.rst._FIELD",
}
SHORT = "connectors.shared.gitignore._TOKEN"  # of patterns, which have a limit
Expression = re.Pattern[Any]


class _TooLong(Exception):
    pass


def expressions() -> Iterator[tuple[str, Expression, set[str]]]:
    """Name, expression and the methods by which it is used."""
    for found in pkgutil.walk_packages(importlib.import_module("ingestor").__path__, "ingestor."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue  # a connector whose extra is not installed
        source = Path(str(module.__file__)).read_text()
        for name, value in vars(module).items():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, re.Pattern) and not f"{found.name}.{name}".endswith(SHORT):
                    yield f"{found.name}.{name}", one, _methods(source, found.name, name)


def _methods(source: str, module: str, name: str) -> set[str]:
    called = re.findall(rf"\b{name}\.({_METHODS})\b", source)
    if not called and f"{module}.{name}" not in MATCHED:
        called = ["match", "fullmatch", "search"]
    whole = {"match": "match", "fullmatch": "fullmatch"}
    return {whole.get(method, "finditer") for method in called or ["match"]}


def inputs(expression: Expression, length: int) -> Iterator[str]:
    tree = parser.parse(expression.pattern, expression.flags)
    characters = list(dict.fromkeys([*_characters(tree), *" \na0!"]))[:9]
    begin = _beginning(tree)
    for unit in itertools.chain(characters, map("".join, itertools.permutations(characters, 2))):
        yield unit * (length // len(unit))
    for size in range(1, min(len(begin), 25) + 1):
        yield begin[:size] * (length // size)
        for character in characters:
            yield begin[:size] + character * length
            yield begin[:size] + character * length + "\x01"
            yield (begin[:size] + character * 2) * (length // (size + 2))


def _characters(tree: Any) -> Iterator[str]:
    """One of each kind that the expression names."""
    for code, value in tree:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            yield chr(value)
        elif code is codes.IN:
            yield from filter(None, (_sample(*member) for member in value))
        elif code is codes.CATEGORY:
            yield _SAMPLES.get(value, "a")
        else:
            for part in _flat(value):
                yield from _characters(part)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)


def _sample(code: Any, value: Any) -> str:
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.RANGE:
        return chr(value[0])
    return _SAMPLES.get(value, "a") if code is codes.CATEGORY else ""


def _beginning(tree: Any) -> str:
    """A text that matches, or nearly so."""
    found = ""
    for code, value in tree:
        if code is codes.LITERAL:
            found += chr(value)
        elif code is codes.IN:
            found += next(filter(None, (_sample(*member) for member in value[:1])), "b")
        elif code is codes.ANY:
            found += "a"
        elif code in _REPEATS:
            found += _beginning(value[2]) * max(value[0], 1)
        elif code is codes.SUBPATTERN:
            found += _beginning(value[3])
        elif code is codes.ATOMIC_GROUP:
            found += _beginning(value)
        elif code is codes.BRANCH:
            found += _beginning(value[1][0])
    return found


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooLong


def slow(length: int, seconds: float) -> Iterator[str]:
    """Each expression that takes longer, with the beginning of what it was given. In the main thread only."""
    for name, expression, methods in expressions():
        for method in sorted(methods):
            if given := stuck(expression, method, length, seconds):
                yield f"{name}.{method}: {expression.pattern!r} on {given[:40]!r}"


def stuck(expression: Expression, method: str, length: int, seconds: float) -> str | None:
    """The first input that takes it longer than so many CPU seconds."""
    text = ""
    signal.signal(signal.SIGVTALRM, _stop)
    try:
        for text in inputs(expression, length):
            given = text.encode("latin-1", "replace") if isinstance(expression.pattern, bytes) else text
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            tried = getattr(expression, method)(given)
            for _ in tried if method == "finditer" else ():
                pass
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        return text
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN)  # a signal that comes late ends whatever runs then
    return None


def test_no_expression_takes_more_than_linear_time() -> None:
    program = f"""
        from tests.test_patterns import slow
        print("\\n".join(slow({LENGTH}, {SECONDS})))
        """
    assert printed(program, seconds=300).strip() == ""


SLOW = [
    (r"(?:.*a){5}b", "match"),
    (r"(a|aa)+b", "match"),
    (r":([\w:.+-]+):`", "finditer"),
    (r"\s*\{[#.:][^{}]*\}$", "finditer"),
    (rb"FLAGS \((?:[^)]* )?\\Deleted", "finditer"),
]


def test_slow_expressions_are_detected() -> None:
    """In a process of its own: a signal that is heard late ends whatever runs then."""
    program = f"""
        import re
        from tests.test_patterns import stuck
        for expression, method in {SLOW!r}:
            print(stuck(re.compile(expression), method, {6 * LENGTH}, {SECONDS}) is not None)
        """
    assert printed(program).split() == ["True"] * len(SLOW)


if __name__ == "__main__":
    for found in slow(int(sys.argv[1]), float(sys.argv[2])):
        print(found, flush=True)
