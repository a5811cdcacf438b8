"""What every test leaves behind as it was."""

import gc
import logging
import os
import re
import signal
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import QUICK
from tests.stretching import stretch

# Where Python is told to write no bytecode, each of the many processes that tests start would compile the
# whole program: a quarter of the time of a short command.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if factor := os.environ.get("INGESTOR_TEST_STRETCH"):
    stretch(float(factor))

# How long an example takes depends on what else the machine does.
# `make test-all` asks for the profile ``thorough``.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _BUSY, max_examples=QUICK)
settings.register_profile("thorough", _BUSY, max_examples=150)
settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: nobody looks through it for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module that has slow tests alone where they are not asked for."""
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    found = re.search(r"^pytestmark = .*pytest\.mark\.slow", collection_path.read_text("utf-8"), re.MULTILINE)
    return True if found else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that need torch first, into one process that imports it; skip them without it."""
    items.sort(key=lambda item: item.get_closest_marker("torch") is None)
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason="torch is not installed: make setup TORCH=1"))


def _loggers() -> list[logging.Logger]:
    named = list(logging.root.manager.loggerDict.values())
    return [logging.root, *(one for one in named if isinstance(one, logging.Logger))]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A test that sets up the program's log must not silence any log for the tests that follow."""
    before = {one: (one.level, one.propagate, one.disabled) for one in _loggers()}
    handlers = list(logging.root.handlers)
    yield
    for one in _loggers():
        level, propagate, disabled = before.get(one, (logging.NOTSET, one.propagate, False))
        if one.level != level:
            one.setLevel(level)
        one.propagate, one.disabled = propagate, disabled
    logging.root.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _umask_as_before() -> Iterator[None]:
    """Commands that are run in the test's own process close what they make to others."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """Children inherit ignored signals: an ignored SIGTERM makes ending each of them last seconds."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    after = {number: signal.getsignal(number) for number in before}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


@pytest.fixture(scope="module")
def forked_chroma() -> Iterator[None]:
    """Fork every Chroma of a module's tests; other modules of the same process start it as people do."""
    from tests.e2e.forked import from_server

    with from_server():
        yield
