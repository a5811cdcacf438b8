"""OpenDocument, and RTF and binary Office formats converted by LibreOffice."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.converters.truths.office import docx
from benchmarks.converters.truths.shape import Truth, local, tabular, xml

_NOT_IN_ODF = {"tracked-changes", "annotation", "desc", "title", "forms", "sequence-decls", "settings",
               "notes", "header", "footer", "note-citation", "date-time-decl", "footer-decl",
               "header-decl"}  # fmt: skip


_SHOWN = ("}value", "}date-value", "}time-value", "}boolean-value")  # the format of these values is left open


def odf(path: str) -> Truth:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            root = xml(file.read("content.xml"))
    else:
        root = xml(Path(path).read_bytes())
    body = next(node for node in root.iter() if local(node) == "body")
    titles = _titles(path, root)
    truth = Truth(headings=[], rows=[])
    sheets = any(local(child) == "spreadsheet" for child in body)
    hidden = {
        _odf_value(style, "name")
        for style in root.iter()
        if local(style) == "style" and any(_odf_value(inner, "display") == "false" for inner in style)
    }
    for table in [t for t in body.iter() if sheets and local(t) == "table"]:
        if _odf_value(table, "style-name") in hidden:
            table.getparent().remove(table)
    for node in body.iter():
        above = [local(up) for up in node.iterancestors()]
        if local(node) in ("p", "h") and not {"p", "h"}.union(_NOT_IN_ODF).intersection(above):
            numeric = any(
                local(up) == "table-cell" and any(k.endswith(_SHOWN) for k in up.attrib)
                for up in node.iterancestors()
            )
            inner = [] if sheets and numeric else [_odf_text(node)]
            truth.text += inner
            if local(node) == "h" and inner and inner[0].strip() and "table-cell" not in above:
                truth.headings.append(inner[0])
            if inner and _odf_value(node, "style-name") in titles:
                truth.open.append(inner[0])
        if (
            local(node) == "frame"
            and _odf_value(node, "class") == "title"
            and (words := _odf_text(node).strip())
        ):
            truth.headings.append(words)
        if sheets and local(node) == "table" and _odf_text(node).strip():
            truth.headings.append(_odf_value(node, "name"))
            truth.text.append(_odf_value(node, "name"))
    truth.rows = tabular(
        [
            "" if sheets and any(k.endswith(_SHOWN) for k in cell.attrib) else _odf_text(cell)
            for cell in row
            if local(cell) == "table-cell"
        ]
        for row in body.iter()
        if local(row) == "table-row" and not any(local(up) == "table-cell" for up in row.iterancestors())
    )
    return truth


def _titles(path: str, root: Any) -> set[str]:
    """Return the style of a document's title, and styles based on it."""
    styles = [root]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            styles += [xml(file.read(name)) for name in file.namelist() if name == "styles.xml"]
    based = {
        _odf_value(style, "name"): _odf_value(style, "parent-style-name")
        for top in styles
        for style in top.iter()
        if local(style) == "style"
    }
    titles = {"Title"}
    while more := {name for name, parent in based.items() if parent in titles} - titles:
        titles |= more
    return titles


def _odf_value(node: Any, name: str) -> str:
    return next((v for k, v in node.attrib.items() if k.endswith("}" + name)), "")


def _odf_text(node: Any) -> str:
    if local(node) in _NOT_IN_ODF:
        return ""
    gap = " " if local(node) in ("s", "tab", "line-break", "p", "h") else ""
    words = (node.text or "") + "".join(_odf_text(child) + (child.tail or "") for child in node)
    return gap + words + (" " if local(node) in ("p", "h", "note") else "")


def by_office(path: str, converted: str) -> Truth:
    """Read a file as LibreOffice does. ``converted``: its path as OpenDocument.

    If an RTF was made from a DOCX, the DOCX has its headings: LibreOffice writes headings into RTF, but does
    not read them.
    """
    truth, source = odf(converted), Path(path).with_suffix("")
    if path.endswith(".docx.rtf") and source.exists():
        truth.headings = docx(str(source)).headings
    return truth


def convert(paths: list[str], suffix: str, folder: str) -> dict[str, str]:
    """Convert documents to OpenDocument, and return their paths. One run of LibreOffice converts all."""
    named = {}
    for at, path in enumerate(paths):
        copy = Path(folder) / f"{at}{Path(path).suffix}"
        copy.write_bytes(Path(path).read_bytes())
        named[path] = copy
    command = [
        "soffice",
        "--headless",
        f"-env:UserInstallation=file://{folder}/profile",
        "--convert-to",
        suffix,
    ]
    try:
        subprocess.run([*command, "--outdir", folder, *map(str, named.values())], capture_output=True)
    except FileNotFoundError:
        print("soffice is missing: RTF, .doc, .xls and .ppt are left out", file=sys.stderr)
    return {path: str(copy.with_suffix(f".{suffix}")) for path, copy in named.items()}
