"""Presentations of PowerPoint before 2007 (.ppt): slides with their titles, texts and notes.

[MS-PPT] The file is a log of edits: the last one says where each slide lies. A slide's placeholders have
their texts in the outline of the document, its other shapes in their own text boxes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ingestor.core.completeness import words
from ingestor.parsers.office97.streams import stream as content
from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

_HEADER = struct.Struct("<HHI")
_DOCUMENT_LIST, _PERSIST, _TEXT_TYPE, _CHARS, _BYTES = 0x0FF0, 0x03F3, 0x0F9F, 0x0FA0, 0x0FA8
_OUTLINE_REF, _NOTES_ATOM, _USER_EDIT, _DIRECTORY, _TEXTBOX = 0x0F9E, 0x03F1, 0x0FF5, 0x1772, 0xF00D
_TITLES, _BODIES = (0, 6), (1, 7, 8)
_ENCRYPTED = 0xF3D1C4DF
_MOST = 1_000_000  # records
_DEEPEST = 50
_DUAL = "PP97_DUALSTORAGE/"  # the document of today beside one for PowerPoint 95


@dataclass(slots=True)
class _Slide:
    """``place``: its number among the parts; ``outline``: kind and text of its placeholders."""

    place: int
    identifier: int
    outline: list[tuple[int, str]] = field(default_factory=list)


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Raises BadDocument when it is encrypted, or names no document of PowerPoint 97 to 2003."""
    folder = _DUAL if file.exists(f"{_DUAL}PowerPoint Document") else ""
    stream = content(file, data, f"{folder}PowerPoint Document")
    user = file.openstream(f"{folder}Current User").read() if file.exists(f"{folder}Current User") else b""
    if len(user) >= 20 and struct.unpack_from("<I", user, 12)[0] == _ENCRYPTED:
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    places, document = _directory(stream, struct.unpack_from("<I", user, 16)[0] if len(user) >= 20 else 0)
    if document not in places:
        raise BadDocument("is damaged, or a presentation from before 1997: save it as .pptx")
    lists = _lists(stream, places[document])
    notes = dict(_notes(stream, places, lists.get(2, [])))
    raw = 0
    for number, slide in enumerate(lists.get(0, [])):
        composer.page, composer.page_label = number, str(number + 1)
        texts = _texts(stream, places.get(slide.place), slide.outline)
        raw += sum(words(text) for _, text in texts)
        _add(composer, texts)
        note = notes.get(slide.identifier, "")
        raw += words(note)
        composer.add("notes", note)
    return {"raw_words": raw, "title": composer.title}


def _add(composer: Composer, texts: list[tuple[int, str]]) -> None:
    for _, text in (one for one in texts if one[0] in _TITLES):
        composer.heading(text, 1)
    for kind, text in texts:
        lines = [line for line in text.split("\n") if line.strip()]
        if kind in _BODIES and len(lines) > 1:
            composer.add("list", "\n".join(f"- {line.strip()}" for line in lines))
        elif kind not in _TITLES:
            composer.add("paragraph", "\n".join(lines))


def _records(stream: bytes, start: int, end: int, depth: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Kind, instance, begin and end of the content of each record, also of nested ones."""
    at = start
    while at + _HEADER.size <= end and depth < _DEEPEST:
        version, kind, size = _HEADER.unpack_from(stream, at)
        at += _HEADER.size
        stop = min(at + size, end)
        yield kind, version >> 4, at, stop
        if version & 15 == 15:
            yield from _records(stream, at, stop, depth + 1)
        at = stop


def _directory(stream: bytes, edit: int) -> tuple[dict[int, int], int]:
    """Return the place of each part by its number, and the number of the document's part."""
    places: dict[int, int] = {}
    document, seen = 0, set[int]()
    while edit not in seen and edit + 28 <= len(stream):
        seen.add(edit)
        if _HEADER.unpack_from(stream, edit)[1] != _USER_EDIT:
            break
        before, directory, first = struct.unpack_from("<III", stream, edit + 16)
        document = document or first
        for number, place in _entries(stream, directory):
            places.setdefault(number, place)
        edit = before
        if not before:
            break
    return places, document


def _entries(stream: bytes, at: int) -> Iterator[tuple[int, int]]:
    if at + _HEADER.size > len(stream) or _HEADER.unpack_from(stream, at)[1] != _DIRECTORY:
        return
    end = min(len(stream), at + _HEADER.size + _HEADER.unpack_from(stream, at)[2])
    at += _HEADER.size
    while at + 4 <= end:
        (packed,) = struct.unpack_from("<I", stream, at)
        count = min(packed >> 20, (end - at - 4) // 4)
        for number, place in enumerate(struct.unpack_from(f"<{count}I", stream, at + 4)):
            yield (packed & 0xFFFFF) + number, place
        at += 4 + 4 * count


def _inside(stream: bytes, at: int) -> Iterator[tuple[int, int, int, int]]:
    """Records in the one that begins there."""
    if not 0 <= at <= len(stream) - _HEADER.size:
        return
    size = _HEADER.unpack_from(stream, at)[2]
    for number, record in enumerate(
        _records(stream, at + _HEADER.size, min(len(stream), at + _HEADER.size + size))
    ):
        if number > _MOST:
            raise BadDocument(f"has more than {_MOST:,} records; exclude it")
        yield record


def _lists(stream: bytes, document: int) -> dict[int, list[_Slide]]:
    """Slides (0), masters (1) and notes (2), in order, with the outline's texts."""
    lists: dict[int, list[_Slide]] = {}
    current: list[_Slide] = []
    kind_of_text = 4
    for kind, instance, begin, end in _inside(stream, document):
        if kind == _DOCUMENT_LIST:
            current = lists.setdefault(instance, [])
        elif kind == _PERSIST and end - begin >= 16:
            place, _, _, identifier = struct.unpack_from("<IIII", stream, begin)
            current.append(_Slide(place, identifier))
        elif kind == _TEXT_TYPE and end - begin >= 4:
            kind_of_text = struct.unpack_from("<I", stream, begin)[0]
        elif kind in (_CHARS, _BYTES) and current:
            current[-1].outline.append((kind_of_text, _decode(stream[begin:end], kind)))
    return lists


def _texts(stream: bytes, place: int | None, outline: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Kind and text of each shape of a slide, in the order of its shapes."""
    texts: list[tuple[int, str]] = []
    taken = set[int]()
    kind_of_text = 4
    for kind, _, begin, end in _inside(stream, place) if place is not None else ():
        if kind == _TEXTBOX:
            kind_of_text = 4
        elif kind == _TEXT_TYPE and end - begin >= 4:
            kind_of_text = struct.unpack_from("<I", stream, begin)[0]
        elif kind in (_CHARS, _BYTES):
            texts.append((kind_of_text, _decode(stream[begin:end], kind)))
        elif kind == _OUTLINE_REF and end - begin >= 4:
            (at,) = struct.unpack_from("<I", stream, begin)
            if at < len(outline) and at not in taken:
                taken.add(at)
                texts.append(outline[at])
    rest = [text for at, text in enumerate(outline) if at not in taken]
    return [one for one in [*rest, *texts] if one[1].strip() not in ("", "*")]


def _notes(stream: bytes, places: dict[int, int], notes: list[_Slide]) -> Iterator[tuple[int, str]]:
    """The speaker's notes by the identifier of their slide."""
    for one in notes:
        place = places.get(one.place)
        slide = 0
        for kind, _, begin, end in _inside(stream, place) if place is not None else ():
            if kind == _NOTES_ATOM and end - begin >= 4:
                slide = struct.unpack_from("<I", stream, begin)[0]
        texts = [text for kind, text in _texts(stream, place, one.outline) if kind == 2]
        if slide and texts:
            yield slide, "\n".join(texts)


def _decode(data: bytes, kind: int) -> str:
    text = data.decode("utf-16-le", "replace") if kind == _CHARS else data.decode("latin-1")
    return text.replace("\r", "\n").replace("\v", " ")
