"""No test depends on how fast the machine is: none compares durations, none gives up after a few seconds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
STOPWATCHES = {"monotonic", "perf_counter"}
# Files that read a stopwatch for something else than a comparison, or run for a given time on purpose.
MAY_READ_ONE = {
    "waiting.py": "waits, with a bound of minutes",
    "app/test_daemon.py": "is the clock port",
    "chroma/test_guard.py": "holds that an answer comes late",
    "chunkers/golden/texts/pump.py": "is a text that is cut",
    "connectors/laws.py": "waits, with a bound of minutes",
    "connectors/servers.py": "waits, with a bound of a minute",
    "e2e/forked.py": "waits as subprocess.Popen does",
    "e2e/test_first_steps.py": "waits, with a bound of minutes",
    "e2e/test_hostile_corpus.py": "the slow test whose subject is time",
    "e2e/test_soak.py": "lives and storms of a given length",
    "nodes/laws.py": "waits, with a bound of minutes",
    "pipeline/packed.py": "is the clock port",
    "pipeline/test_limits.py": "the deadline of the tested function",
}
WAITING = {"wait", "join", "result", "exception", "next", "acquire", "wait_for", "Barrier", "stop"}
LEAST = 30  # seconds; what is below one second is a pause, or a time-out that the test expects


def bounds(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that say for how long it waits."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    yield from (named[key] for key in ("timeout", "seconds") if key in named and name in WAITING)
    if name == "wait" and isinstance(call.func, ast.Name):
        yield from call.args[1:2]
    elif name in WAITING - {"Barrier"} and isinstance(call.func, ast.Attribute):
        yield from call.args[-1:]


def faults(source: str, *, may_read: bool = False) -> list[str]:
    """Return the lines of a test that depend on the machine's speed, with the reason."""
    found = []
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in STOPWATCHES and not may_read:
            found.append(f"line {node.lineno} reads a stopwatch")  # type: ignore[attr-defined]
        for bound in bounds(node) if isinstance(node, ast.Call) else ():
            seconds = bound.value if isinstance(bound, ast.Constant) else None
            if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 1 <= seconds < LEAST:
                found.append(f"line {bound.lineno} gives up after {seconds} s")
    return found


FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))


def test_tests_depend_on_no_clock() -> None:
    found = {
        name: lines
        for name in FILES
        if (lines := faults((TESTS / name).read_text("utf-8"), may_read=name in MAY_READ_ONE))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "assert time.monotonic() - begun < 5",
        "took = perf_counter() - begun",
        "thread.join(20)",
        "assert done.wait(10)",
        "future.result(timeout=5)",
        "wait(lambda: ready, 5)",
        "Barrier(3, timeout=10)",
        "pool.next(20)",
        "daemon.stop(seconds=10)",
    ],
)
def test_dependence_on_a_clock_is_found(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize("source", ["Event().wait(0.02)", "thread.join(60)", "wait(lambda: ready)", "get(7)"])
def test_waiting_without_a_short_bound_is_allowed(source: str) -> None:
    assert not faults(source)
