"""Place the values of form fields beside their labels in the text of a page.

The label of a box to tick is on its right, that of another field on its left, else above it. A field without
a label stands on a line of its own, after its name.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from ingestor.parsers.pdf.lines import Line, Word
from ingestor.parsers.pdf.rules import Box

_NEAR = 40.0  # points from a label to the field on its right
_FAR = 250.0  # points, where nothing stands above the field
_ABOVE = 18.0  # points from the top of a field to the baseline of the label above it
_OVERLAP = 4.0  # points by which a label may reach into its field
_SIZE = 8.0  # points of type, of a line made for a field: too small for a heading
_MARKS = {True: "[x]", False: "[ ]"}
_PLACEHOLDERS = "_.… "


@dataclass(frozen=True, slots=True)
class Field:
    """``ticked``: None of all but check boxes and radio buttons."""

    name: str
    value: str
    box: Box
    ticked: bool | None = None

    @property
    def said(self) -> str:
        return self.value if self.ticked is None else _MARKS[self.ticked]


@dataclass(frozen=True, slots=True)
class Placed:
    """``values``: what is filled in before and after a word, by its first character; ``lines``: the rest."""

    values: Mapping[int, tuple[str, str]]
    lines: tuple[Line, ...] = ()

    def filled(self, word: Word) -> Word:
        before, after = self.values.get(word.first, ("", ""))
        return replace(word, text=f"{before}{word.text}{after}") if before or after else word


def placed(fields: Iterable[Field], words: Sequence[Word]) -> Placed:
    said = [word for word in words if word.text.strip(_PLACEHOLDERS)]
    values: dict[int, tuple[str, str]] = defaultdict(lambda: ("", ""))
    rest = []
    for field in sorted(fields, key=lambda field: (-field.box[1], field.box[0])):
        if field.ticked is not None and (label := _right(field.box, said)):
            before, after = values[label.first]
            values[label.first] = (f"{before}{field.said} ", after)
        elif not field.said:
            continue
        elif label := _left(field.box, said, _NEAR) or _over(field.box, said) or _left(field.box, said, _FAR):
            before, after = values[label.first]
            values[label.first] = (before, f"{after} {field.said}")
        elif field.value or field.ticked:
            rest.append(_line(field))
    return Placed(dict(values), tuple(rest))


def _right(box: Box, words: Iterable[Word]) -> Word | None:
    beside = [word for word in words if _level(word, box) and 0 <= word.left - box[2] + 2 <= _NEAR]
    return min(beside, key=lambda word: word.left, default=None)


def _left(box: Box, words: Iterable[Word], farthest: float) -> Word | None:
    beside = [
        word for word in words
        if _level(word, box) and -_OVERLAP <= box[0] - word.right <= farthest and word.left < box[0]
    ]  # fmt: skip
    return max(beside, key=lambda word: word.right, default=None)


def _over(box: Box, words: Iterable[Word]) -> Word | None:
    above = [
        word for word in words
        if -_OVERLAP <= word.baseline - box[3] <= _ABOVE and box[0] - _NEAR <= word.left < box[2]
    ]  # fmt: skip
    return min(above, key=lambda word: (round(word.baseline), -word.right), default=None)


def _level(word: Word, box: Box) -> bool:
    return box[1] - _OVERLAP <= word.baseline <= box[3]


def _line(field: Field) -> Line:
    left, bottom, right, _ = field.box
    text = f"{field.name}: {field.said}" if field.name else field.said
    return Line(text, left, right, bottom, _SIZE)


# --- forms in XML (XFA), which have no pages ----------------------------------------------------------------


def form_lines(template: Element, data: Element) -> Iterator[str]:
    """Yield the lines of a form, with values beside their labels; values without a field follow by name."""
    values: dict[str, deque[str]] = {}
    for leaf in data.iter():
        if not len(leaf) and (said := _said(leaf)):
            values.setdefault(_local(leaf), deque()).append(said)
    yield from _template_lines(template, values)
    for name, rest in values.items():
        yield from (f"{name}: {value}" for value in rest)


def _template_lines(element: Element, values: dict[str, deque[str]]) -> Iterator[str]:
    for child in element:
        name = _local(child)
        if child.get("presence") in ("hidden", "inactive"):
            continue
        if name == "draw":
            yield from filter(None, [_value(child)])
        elif name == "field":
            label = next((_value(one) for one in child if _local(one) == "caption"), "") or child.get(
                "name", ""
            )
            filled = values.get(child.get("name", ""))
            value = filled.popleft() if filled else _value(child)
            yield from filter(None, [f"{label.removesuffix(':')}: {value}" if value else label])
        else:
            yield from _template_lines(child, values)


def _value(element: Element) -> str:
    return next((_said(one) for one in element if _local(one) == "value"), "")


def _said(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
