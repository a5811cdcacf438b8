"""Texts that mean harm: a hundred thousand times the same. No strategy and no parser takes long for any.

``python -m tests.test_monotony LENGTH SECONDS [KIND…]`` cuts each text by each strategy (a language model
answers at once), and reads it by each parser of plain text; it prints those that took more CPU seconds.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from ingestor.model import Blob, Document
from ingestor.ports import BadDocument
from ingestor.registry import find, kinds
from tests.bounded import printed
from tests.chunkers.laws import cut
from tests.chunkers.scripted import ENDPOINT, Say, Scripted, every, speaking

pytestmark = pytest.mark.slow
LENGTH = 100_000  # characters; the slowest takes 25 seconds for a million
SECONDS = 15  # of processor time for one text

UNITS = [
    *(
        "x",
        "\n",
        "\r",
        " ",
        "\t",
        "#",
        "# a\n",
        "###### a\n",
        "|",
        "| a | b |\n",
        "- ",
        "- a\n",
        "(",
        "[",
        "{",
    ),
    *("<", "<a>", "[a](", '"', "> ", ".", "A b. ", "a,", "a, ", "*", "*a **a ", "_", "`", "```\n", "---\n"),
    *("a\n=\n", "\\", ":", "&amp;", "a: b\n", "word ", "word\n", "word word.\n\n", "1", "1. a\n", "[a]\n"),
    *("\\begin{a}", ":a:`", "#+begin_src\n", ":a:\n", "00:00:01,000 --> 00:00:02,000\na\n\n", "<!--"),
    *("[a]: b\n", "[^1]: a\n", '"""', "\u5b57", "\u5b57\u3002", "\U0001f600", "\U0001f468\u200d"),
    *("e\u0301\u0301\u0301", "\u0301", "\u202e", "\u200d", "\U0001f1e6"),
]
# What a model says to the chunkers that ask one: nothing of use, or as much as it can.
SAID: dict[str, Say] = {
    "llm": every(2),
    "proposition": lambda messages: json.dumps([messages[-1][1][:2000], "a statement"]),
}


def texts(length: int) -> Iterator[tuple[str, str]]:
    for unit in UNITS:
        yield repr(unit), unit * (length // len(unit))
    yield "deeper and deeper", "".join(" " * depth + "- a\n" for depth in range(int((2 * length) ** 0.5)))
    yield "steps", "".join(" " * (depth % 40) + "a:\n" for depth in range(length // 22))
    yield "marks in a word", "a" + "\u0301" * (length - 1)
    yield "lone surrogates", "a\ud800 \udfff" * (length // 4)
    yield "surrogates alone", "\ud800" * length
    yield "a word", "abcdefghij" * (length // 10)
    yield "quotes in quotes", "\n".join("> " * depth + "a" for depth in range(int(length**0.5)))


NAMES = {
    "asciidoc": "a.adoc", "csv": "a.csv", "json": "a.json", "latex": "a.tex", "markdown": "a.md",
    "notebook": "a.ipynb", "org": "a.org", "rst": "a.rst", "subtitles": "a.srt", "text": "a.txt",
    "toml": "a.toml", "xml": "a.xml", "yaml": "a.yaml",
}  # fmt: skip


def _chunked(kind: str) -> Callable[[str], object]:
    plugin = find("chunkers", kind)
    if kind not in SAID:
        return lambda text: cut(plugin, text)
    asking = speaking(plugin, Scripted(SAID[kind]))
    return lambda text: cut(asking, text, **ENDPOINT)


def _parsed(kind: str) -> Callable[[str], object]:
    plugin = find("parsers", kind)
    parser = plugin.build(plugin.options())

    def parse(text: str) -> object:
        try:
            return parser.parse(Blob(text.encode("utf-8", "surrogatepass"), NAMES[kind]))
        except BadDocument:
            return Document("")

    return parse


def readers() -> dict[str, Callable[[str], object]]:
    chunkers = {kind: _chunked(kind) for kind in kinds("chunkers")}
    return chunkers | {f"{kind} parser": _parsed(kind) for kind in NAMES}


class _TooLong(Exception):
    pass


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooLong


def slow(length: int, seconds: float, only: list[str]) -> Iterator[str]:
    """Each reader and text that take longer. In the main thread only."""
    signal.signal(signal.SIGVTALRM, _stop)
    for kind, read in readers().items():
        if only and kind not in only:
            continue
        for name, text in texts(length):
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            try:
                read(text)
            except _TooLong:
                yield f"{kind}: {name}: more than {time.process_time() - begun:.1f} s"
            except Exception as error:  # noqa: BLE001 - to be told with its text
                yield f"{kind}: {name}: {type(error).__name__}: {error}"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@pytest.mark.parametrize("kind", sorted(readers()))
def test_no_text_takes_long(kind: str) -> None:
    program = f"""
        from tests.test_monotony import slow
        print("\\n".join(slow({LENGTH}, {SECONDS}, [{kind!r}])))
        """
    assert printed(program, seconds=200).strip() == ""


if __name__ == "__main__":
    for found in slow(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]):
        print(found, flush=True)
