"""The fields of a PDF's forms, and the annotations of readers."""

from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_ulong, c_ushort, cast, create_string_buffer
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from ingestor.parsers.pdf.fields import Field, form_lines
from ingestor.parsers.pdf.page import PageText
from ingestor.parsers.shared.package import xml
from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

_MOST = 5000  # annotations of a page, and parts of a form, that are looked at
_NAME = 128  # bytes of the name of a form's part
_PASSWORD = 1 << 13  # flag of a field: its value is not shown
_TICKED = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_WRITTEN = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_NO_COMMENTS = (raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_UNKNOWN)


def fields_and_comments(
    document: "PdfDocument", page: "PdfPage", text: PageText
) -> tuple[list[Field], tuple[str, ...]]:
    """The page's form fields (boxes in points), and the texts of its annotations, each after its author."""
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


def form_in_xml(document: "PdfDocument") -> tuple[str, ...]:
    """The lines of a form that has no pages of its own (dynamic XFA): viewers make them by its XML."""
    if raw.FPDF_GetFormType(document) != raw.FORMTYPE_XFA_FULL:
        return ()
    packets = dict(_packets(document))
    try:
        template, data = (xml(packets.get(name) or b"<none/>", name) for name in ("template", "datasets"))
    except BadDocument:
        return ()
    return tuple(form_lines(template, data))


def _packets(document: "PdfDocument") -> Iterator[tuple[str, bytes]]:
    for at in range(min(raw.FPDF_GetXFAPacketCount(document), _MOST)):
        name = create_string_buffer(_NAME)
        raw.FPDF_GetXFAPacketName(document, at, name, _NAME)
        size = c_ulong()
        raw.FPDF_GetXFAPacketContent(document, at, None, 0, byref(size))
        content = create_string_buffer(size.value + 1)
        raw.FPDF_GetXFAPacketContent(document, at, content, size.value, byref(size))
        yield name.value.decode("latin-1"), content.raw[: size.value]


def _annotations(page: "PdfPage") -> Iterator[Any]:
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        if annotation:
            yield annotation
            raw.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any, text: PageText) -> Iterator[Field]:
    """Yield the field of an annotation; no field for a button, a signature or a password."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind not in (*_TICKED, *_WRITTEN) or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return
    name = _told(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation) or _told(
        raw.FPDFAnnot_GetFormFieldName, form, annotation
    )
    ticked = bool(raw.FPDFAnnot_IsChecked(form, annotation)) if kind in _TICKED else None
    value = "" if kind in _TICKED else _told(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    yield Field(name, value, _box(annotation, text), ticked)


def _loose_field(annotation: Any, text: PageText) -> Iterator[Field]:
    """Yield the field of a file whose catalog has lost its form: its own entries tell."""
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


def _told(ask: Callable[..., int], form: Any, annotation: Any) -> str:
    size = ask(form, annotation, None, 0)
    buffer = create_string_buffer(size + 2)
    ask(form, annotation, cast(buffer, POINTER(c_ushort)), size)
    return " ".join(buffer.raw.decode("utf-16-le", "replace").replace("\0", "").split())


def _value(annotation: Any, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    buffer = create_string_buffer(size + 2)
    raw.FPDFAnnot_GetStringValue(annotation, key, cast(buffer, POINTER(c_ushort)), size)
    return buffer.raw.decode("utf-16-le", "replace").replace("\0", "").replace("\r", "\n")
