"""Commands of a project as a fixture, with what they answer."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

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
def ask(project: Project) -> Ask:
    """Runs a command of the project."""

    def run(*words: str) -> Answer:
        done = project.call(*words)
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


def plan_of(ask: Ask) -> Any:
    """A plan for files that nobody has written to only just now."""
    answer = wait(lambda: found if (found := ask("plan", "--json")).code == 0 else None)
    return json.loads(answer.out)
