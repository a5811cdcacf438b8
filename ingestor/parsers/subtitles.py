"""Subtitles (.srt and .vtt): the spoken text, in paragraphs with their start time as ``page_label``.

A pause begins a new paragraph, and a paragraph is at most a minute long. Each cue is a line of its paragraph.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import zip_longest

from ingestor.model import Blob, Document
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_CUE = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}.*$", re.MULTILINE)
_COUNTER = re.compile(r"(?:^|\n)[ \t]*\d+[ \t]*\n?\Z")  # of the next cue
_VOICE = re.compile(r"<v(?:\.[^\s<>]*+)?\s+([^<>]{1,100})>")
_TAG = re.compile(r"<[^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_PAUSE = 2.0  # seconds of silence that end a paragraph
_ROLLING = 0.02  # seconds between captions that roll
_LONGEST = 60.0  # seconds of a block
_TITLE = re.compile(r"WEBVTT[ \t]+(?:-[ \t]+)?(\S.*)")


@dataclass(frozen=True, slots=True)
class _Cue:
    begin: float  # seconds
    end: float
    text: str


def parse(blob: Blob) -> Document:
    """Read subtitles as a document. Raises BadDocument if the content is not text."""
    text = re.sub(r"\r\n?", "\n", decode(blob.data))
    composer = Composer()
    for part in _parts(_cues(text)):
        minutes, seconds = divmod(int(part[0].begin), 60)
        composer.page_label = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
        composer.add("paragraph", "\n".join(cue.text for cue in part))
    title = _TITLE.match(text)
    return composer.document(content_type(blob), title=title[1].strip() if title else None)


def _cues(text: str) -> Iterator[_Cue]:
    """Yield the text below each line of times, up to the first blank line.

    Captions that scroll repeat the lines of the previous cue; the repeated lines are left out.
    """
    times = list(_CUE.finditer(text))
    shown, over = list[str](), 0.0  # lines of the cue before, and when it ended
    for cue, after in zip_longest(times, times[1:]):
        end = after.start() if after else len(text)
        body = text[cue.end() + 1 : end]
        body = (_COUNTER.sub("", body) if after else body).split("\n\n", 1)[0]
        words = unescape(_TAG.sub("", _VOICE.sub(r"\1: ", body)))
        lines = [line for one in words.split("\n") if (line := " ".join(one.split()))]
        rolls = _seconds(cue, 1) - over <= _ROLLING
        again = next((n for n in range(len(lines), 0, -1) if rolls and lines[:n] == shown[-n:]), 0)
        shown, over = lines, _seconds(cue, 5)
        if line := " ".join(lines[again:]):
            yield _Cue(_seconds(cue, 1), _seconds(cue, 5), line)


def _parts(cues: Iterator[_Cue]) -> Iterator[list[_Cue]]:
    part: list[_Cue] = []
    for cue in cues:
        if part and (cue.begin - part[-1].end >= _PAUSE or cue.end - part[0].begin > _LONGEST):
            yield part
            part = []
        part.append(cue)
    if part:
        yield part


def _seconds(cue: re.Match[str], first: int) -> float:
    hours, minutes, seconds = (int(cue[group] or 0) for group in range(first, first + 3))
    return hours * 3600 + minutes * 60 + seconds + float(f"0.{cue[first + 3] or 0}")


PLUGIN = parser_plugin("subtitles", 3, parse, isolated="large")
