"""Office Open XML."""

import re
import zipfile
from typing import Any

from lxml import etree

from benchmarks.converters.truths.shape import Truth, local, spoken, tabular, xml

_NOT_SAID = {"Fallback", "del", "delText", "instrText", "pPr", "rPr", "moveFrom", "txbxContent"}


def docx(path: str) -> Truth:
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        main = next(n for n in names if re.fullmatch(r"word/document\d*\.xml", n))
        root = xml(file.read(main))
        levels = _styles(xml(file.read("word/styles.xml"))) if "word/styles.xml" in names else {}
        notes = [xml(file.read(n)) for n in ("word/footnotes.xml", "word/endnotes.xml") if n in names]
    truth = Truth(headings=[], rows=[])
    for p in (
        p for p in root.iter() if local(p) == "p" and etree.QName(p).namespace.find("wordprocessingml") >= 0
    ):
        words = spoken(p, {"t"}, _NOT_SAID)
        truth.text.append(words)
        style, level = _style(p)
        level = levels.get(style, "") if level is None else level
        inside = any(local(up) == "tc" for up in p.iterancestors())
        if words.strip() and level == "title":
            truth.open.append(words)
        elif words.strip() and level and not inside:
            truth.headings.append(words)
    truth.rows = tabular(
        [
            " ".join(spoken(p, {"t"}, _NOT_SAID) for p in cell.iter() if local(p) == "p")
            for cell in row
            if local(cell) == "tc"
        ]
        for row in root.iter()
        if local(row) == "tr" and not any(local(up) == "tc" for up in row.iterancestors())
    )
    truth.text += [spoken(p, {"t"}, _NOT_SAID) for root in notes for p in root.iter() if local(p) == "p"]
    return truth


def _val(node: Any) -> str:
    return next((value for key, value in node.attrib.items() if key.endswith("}val")), "")


def _style(p: Any) -> tuple[str, str | None]:
    style, level = "", None
    for node in (n for pr in p if local(pr) == "pPr" for n in pr):
        if local(node) == "pStyle":
            style = _val(node)
        if local(node) == "outlineLvl":
            level = "" if _val(node) == "9" else "h"
    return style, level


def _styles(root: Any) -> dict[str, str]:
    """Return the styles of headings, by outline level or name of the style or of its base."""
    based, levels = {}, {}
    for style in (s for s in root if local(s) == "style"):
        key = next((v for k, v in style.attrib.items() if k.endswith("}styleId")), "")
        for node in style.iter():
            if local(node) == "basedOn":
                based[key] = _val(node)
            if local(node) == "outlineLvl":
                levels[key] = "" if _val(node) == "9" else "h"
            if local(node) == "name" and (words := re.fullmatch(r"heading \d|(title)", _val(node).lower())):
                levels.setdefault(key, "title" if words[1] else "h")
    for key in list(based):
        at, seen = key, set()
        while at not in levels and at in based and at not in seen:
            seen.add(at)
            at = based[at]
        levels.setdefault(key, levels.get(at, ""))
    return levels


def pptx(path: str) -> Truth:
    truth = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        rels = xml(file.read("ppt/_rels/presentation.xml.rels"))
        targets = {rel.get("Id"): rel.get("Target") for rel in rels}
        order = [
            targets[value]
            for node in xml(file.read("ppt/presentation.xml")).iter()
            if local(node) == "sldId"
            for key, value in node.attrib.items()
            if key.endswith("}id")
        ]
        slides = [xml(file.read(f"ppt/{name}" if not name.startswith("/") else name[1:])) for name in order]
    for slide in slides:
        paragraphs = [(p, spoken(p, {"t"}, {"Fallback"})) for p in slide.iter() if local(p) == "p"]
        truth.text += [words for _, words in paragraphs]
        for shape in (s for s in slide.iter() if local(s) == "sp"):
            kinds = [n.get("type") for n in shape.iter() if local(n) == "ph"]
            words = " ".join(spoken(p, {"t"}, set()) for p in shape.iter() if local(p) == "p").strip()
            if words and kinds and kinds[0] in ("title", "ctrTitle"):
                truth.headings.append(words)
        truth.rows += tabular(
            [spoken(cell, {"t"}, set()) for cell in row if local(cell) == "tc"]
            for row in slide.iter()
            if local(row) == "tr"
        )
    return truth


def xlsx(path: str) -> Truth:
    """Read cells of text; the format of numbers is left open."""
    truth = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        shared = []
        for name in (n for n in names if n.lower() == "xl/sharedstrings.xml"):
            shared = [spoken(si, {"t"}, {"rPh"}) for si in xml(file.read(name)) if local(si) == "si"]
        rels = {r.get("Id"): r.get("Target") for r in xml(file.read("xl/_rels/workbook.xml.rels"))}
        for sheet in (s for s in xml(file.read("xl/workbook.xml")).iter() if local(s) == "sheet"):
            target = rels[next(v for k, v in sheet.attrib.items() if k.endswith("}id"))]
            target = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
            if sheet.get("state") or "worksheets" not in target:
                continue
            cells = [
                [_cell(c, shared) for c in row if local(c) == "c"]
                for row in xml(file.read(target)).iter()
                if local(row) == "row" and row.get("hidden") not in ("1", "true")
            ]
            if any(cell for row in cells for cell in row):
                truth.headings.append(sheet.get("name"))
                truth.text.append(sheet.get("name"))
            truth.text += [" ".join(row) for row in cells]
            truth.rows += tabular(iter(cells))
    return truth


def _cell(c: Any, shared: list[str]) -> str:
    value = "".join(v.text or "" for v in c if local(v) == "v")
    if c.get("t") == "s" and value:
        return shared[int(value)]
    return spoken(c, {"t"}, {"rPh"}) if c.get("t") == "inlineStr" else value if c.get("t") == "str" else ""
