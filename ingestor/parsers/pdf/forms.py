"""Puts the values of a PDF's form fields behind their labels, and reads the annotations of readers.

The label of a check box is on its right. The label of another field is on its left, or else above it. A field
without a label gets a line of its own, after its name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from ingestor.parsers.pdf.drawn import Box
from ingestor.parsers.pdf.lines import Line, Word
from ingestor.parsers.pdf.page import PageText, text_of

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

_MOST = 5000  # annotations of a page that are looked at
_PASSWORD = 1 << 13  # flag of a field: its value is not shown
_TICKED = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_WRITTEN = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_NO_COMMENTS = (raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_UNKNOWN)
_NEAR = 40.0  # points from a label to the field on its right
_FAR = 250.0  # points, where nothing stands above the field
_ABOVE = 18.0  # points from the top of a field to the baseline of the label above it
_OVERLAP = 4.0  # points by which a label may reach into its field
_SIZE = 8.0  # points of type, of a line made for a field: too small for a heading
_MARKS = {True: "[x]", False: "[ ]"}
_PLACEHOLDERS = "_.… "


@dataclass(frozen=True, slots=True)
class Field:
    """A form field. ``ticked``: whether a check box or radio button is ticked; None for other fields."""

    name: str
    value: str
    box: Box
    ticked: bool | None = None

    @property
    def display_text(self) -> str:
        return self.value if self.ticked is None else _MARKS[self.ticked]


@dataclass(frozen=True, slots=True)
class Placed:
    """The values of a page's form fields. ``values``: text to put before and after a word that is a label.

    Its keys are the positions of the words' first characters. ``lines``: values of fields without a label.
    """

    values: Mapping[int, tuple[str, str]]
    lines: tuple[Line, ...] = ()

    def fill(self, word: Word) -> Word:
        before, after = self.values.get(word.first, ("", ""))
        return replace(word, text=f"{before}{word.text}{after}") if before or after else word


def place(fields: Iterable[Field], words: Sequence[Word]) -> Placed:
    """Put the value of each field beside the word that is its label, or into a line of its own."""
    legible = [word for word in words if word.text.strip(_PLACEHOLDERS)]
    values: dict[int, tuple[str, str]] = defaultdict(lambda: ("", ""))
    rest = []
    for field in sorted(fields, key=lambda field: (-field.box[1], field.box[0])):
        if field.ticked is not None and (label := _find_word_right_of(field.box, legible)):
            before, after = values[label.first]
            values[label.first] = (f"{before}{field.display_text} ", after)
        elif not field.display_text:
            continue
        elif (
            label := _find_word_left_of(field.box, legible, _NEAR)
            or _find_word_above(field.box, legible)
            or _find_word_left_of(field.box, legible, _FAR)
        ):
            before, after = values[label.first]
            values[label.first] = (before, f"{after} {field.display_text}")
        elif field.value or field.ticked:
            text = f"{field.name}: {field.display_text}" if field.name else field.display_text
            rest.append(Line(text, field.box[0], field.box[2], field.box[1], _SIZE))
    return Placed(dict(values), tuple(rest))


def _find_word_right_of(box: Box, words: Iterable[Word]) -> Word | None:
    """Return the nearest word to the right of a field at the same height; None if no word is near."""
    beside = [word for word in words if _is_level(word, box) and 0 <= word.left - box[2] + 2 <= _NEAR]
    return min(beside, key=lambda word: word.left, default=None)


def _find_word_left_of(box: Box, words: Iterable[Word], farthest: float) -> Word | None:
    """Return the nearest word to the left of a field at the same height, at most ``farthest`` points away."""
    beside = [
        word for word in words
        if _is_level(word, box) and -_OVERLAP <= box[0] - word.right <= farthest and word.left < box[0]
    ]  # fmt: skip
    return max(beside, key=lambda word: word.right, default=None)


def _find_word_above(box: Box, words: Iterable[Word]) -> Word | None:
    """Return the last word of the nearest line above a field; None if no line is near."""
    above = [
        word for word in words
        if -_OVERLAP <= word.baseline - box[3] <= _ABOVE and box[0] - _NEAR <= word.left < box[2]
    ]  # fmt: skip
    return min(above, key=lambda word: (round(word.baseline), -word.right), default=None)


def _is_level(word: Word, box: Box) -> bool:
    return box[1] - _OVERLAP <= word.baseline <= box[3]


# --- fields of a page ---------------------------------------------------------------------------------------


def fields_and_comments(
    document: "PdfDocument", page: "PdfPage", text: PageText
) -> tuple[list[Field], tuple[str, ...]]:
    """Return the form fields of a page, and its annotations as text, each after the name of its author."""
    fields: list[Field] = []
    comments: list[str] = []
    for annotation in _annotations(page):
        subtype = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
            continue
        if subtype == raw.FPDF_ANNOT_WIDGET:
            form = document.formenv.raw if document.formenv else None
            fields += _field(form, annotation, text) if form else _loose_field(annotation, text)
        elif subtype not in _NO_COMMENTS and (contents := _value(annotation, b"Contents").strip()):
            author = " ".join(_value(annotation, b"T").split())
            comments.append(f"{author}: {contents}" if author else contents)
    return fields, tuple(comments)


def _annotations(page: "PdfPage") -> Iterator[Any]:
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        if annotation:
            yield annotation
            raw.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any, text: PageText) -> Iterator[Field]:
    """Yield the form field of an annotation; none for a button, a signature or a password."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind not in (*_TICKED, *_WRITTEN) or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return
    names = raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName
    name = next(filter(None, (text_of(ask, form, annotation) for ask in names)), "")
    ticked = bool(raw.FPDFAnnot_IsChecked(form, annotation)) if kind in _TICKED else None
    value = "" if kind in _TICKED else text_of(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    yield Field(" ".join(name.split()), " ".join(value.split()), _box(annotation, text), ticked)


def _loose_field(annotation: Any, text: PageText) -> Iterator[Field]:
    """Yield the form field that an annotation describes itself.

    It is used for a file whose catalog lists no form, so that pdfium does not report the field.
    """
    kind, value = _value(annotation, b"FT"), _value(annotation, b"V")
    if kind == "Btn":
        state = _value(annotation, b"AS")
        yield Field(_value(annotation, b"T"), "", _box(annotation, text), ticked=state not in ("", "Off"))
    elif value.strip():
        name = _value(annotation, b"TU") or _value(annotation, b"T")
        yield Field(name, " ".join(value.split()), _box(annotation, text))


def _box(annotation: Any, text: PageText) -> tuple[float, float, float, float]:
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, byref(rect))
    return text.box(rect.left, rect.bottom, rect.right, rect.top)


def _value(annotation: Any, key: bytes) -> str:
    return text_of(raw.FPDFAnnot_GetStringValue, annotation, key).replace("\r", "\n")
