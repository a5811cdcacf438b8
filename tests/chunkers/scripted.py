"""A language model of a few lines: what it says depends on what it is asked alone."""

import re
from collections.abc import Callable
from dataclasses import replace

from ingestor.llm.client import Completion, Messages, Prompt
from ingestor.registry import Plugin

ENDPOINT = {"base_url": "http://127.0.0.1:9/v1", "model": "scripted"}

Say = Callable[[Messages], str | None]


class Scripted:
    """Answers by a script, and asks no model."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.asked: list[Messages] = []

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        self.asked.append(question.messages)
        return self._say(question.messages)

    def wait(self, seconds: float) -> None:
        raise AssertionError("nobody is asked, so nothing fails")


class Remembering(Scripted):
    """The same, with a cache: ``asked`` holds what was new."""

    def __init__(self, say: Say) -> None:
        super().__init__(say)
        self._known: dict[str, str | None] = {}

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        if question.key not in self._known:
            self._known[question.key] = super().answer(question, ask)
        return self._known[question.key]


def speaking(plugin: Plugin, answers: Scripted) -> Plugin:
    """The plugin, asking through these."""
    return replace(plugin, build=lambda options, tokens: plugin.build(options, tokens).through(answers))


def pieces(messages: Messages) -> list[str]:
    """The numbered pieces of the last text that ``llm`` showed."""
    shown = next(content for role, content in messages if role == "user")
    found = re.findall(r"(?s)<start_chunk_(\d+)>(.*?)<end_chunk_\1>", shown)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [text for _, text in found]


def every(step: int) -> Say:
    """Splits after every so many pieces."""

    def say(messages: Messages) -> str:
        count = len(pieces(messages))
        return "split_after: " + ", ".join(map(str, range(min(step, count), count + 1, step)))

    return say
