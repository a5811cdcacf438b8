"""Commands run in the test's own process, which is ten times as quick as in one of their own."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ingestor.cli.main import main
from tests.e2e.project import Project
from tests.waiting import wait


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


def answered(answer: Answer, code: int = 0) -> Any:
    """The JSON that it printed."""
    assert answer.code == code, answer
    return json.loads(answer.out)


@pytest.fixture
def ask(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    """Runs a command in this process, which is ten times as quick as in one of its own."""
    handlers = logging.root.handlers[:]

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["ingestor", words[0], "--config", str(project.config), *words[1:]])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    yield run
    logging.root.handlers[:] = handlers


def plan_of(ask: Ask) -> Any:
    """A plan for files that nobody has written to only just now."""
    answer = wait(lambda: found if (found := ask("plan", "--json")).code == 0 else None)
    return json.loads(answer.out)
