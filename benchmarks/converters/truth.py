"""What stands in a document, read from its source without any of the converters.

Runs in an environment of its own. ``python truth.py OUTPUT NODE``: standard input as of ``worker``; a line of OUTPUT
is [key, text, headings, rows, open headings]. ``text`` is what a reader is to find, in order; a row has two cells or
more; an open heading may be given or not (the document's title). None where the format does not say.

Binary Office formats and RTF are read as what LibreOffice makes of them. A page of HTML that marks its main part
(main, article, role=main) means that; others are left out. Of a PDF: the text of its pages in their order, less
lines that repeat at the edges of pages; headings are those entries of the outline that stand on their page.
"""
# ruff: noqa: E501, PIE800

import csv
import email
import email.policy
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from lxml import etree


@dataclass
class Truth:
    text: list[str] = field(default_factory=list)
    headings: list[str] | None = None
    rows: list[list[str]] | None = None
    open: list[str] = field(default_factory=list)


def _xml(data: bytes) -> Any:
    return etree.fromstring(data, etree.XMLParser(recover=True, resolve_entities=False, huge_tree=True))


def _name(node: Any) -> str:
    return etree.QName(node).localname if isinstance(node.tag, str) else ""


def _said(node: Any, take: set[str], skip: set[str]) -> str:
    """Text of the elements ``take`` below, in order."""
    if _name(node) in skip:
        return ""
    own = (
        (node.text or "") if _name(node) in take else {"tab": " ", "br": " ", "cr": " "}.get(_name(node), "")
    )
    return own + "".join(_said(child, take, skip) for child in node)


def _rows(rows: Iterator[list[str]]) -> list[list[str]]:
    kept = ([cell for cell in row if cell.strip()] for row in rows)
    return [row for row in kept if len(row) > 1]


_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def _text(data: bytes) -> str:
    """By its mark, else as UTF-8 or Windows-1252."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


# Office Open XML


_NOT_SAID = {"Fallback", "del", "delText", "instrText", "pPr", "rPr", "moveFrom", "txbxContent"}


def docx(path: str) -> Truth:
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        main = next(n for n in names if re.fullmatch(r"word/document\d*\.xml", n))
        root = _xml(file.read(main))
        levels = _styles(_xml(file.read("word/styles.xml"))) if "word/styles.xml" in names else {}
        notes = [_xml(file.read(n)) for n in ("word/footnotes.xml", "word/endnotes.xml") if n in names]
    found = Truth(headings=[], rows=[])
    for p in (
        p for p in root.iter() if _name(p) == "p" and etree.QName(p).namespace.find("wordprocessingml") >= 0
    ):
        said = _said(p, {"t"}, _NOT_SAID)
        found.text.append(said)
        style, level = _style(p)
        level = levels.get(style, "") if level is None else level
        inside = any(_name(up) == "tc" for up in p.iterancestors())
        if said.strip() and level == "title":
            found.open.append(said)
        elif said.strip() and level and not inside:
            found.headings.append(said)
    found.rows = _rows(
        [
            " ".join(_said(p, {"t"}, _NOT_SAID) for p in cell.iter() if _name(p) == "p")
            for cell in row
            if _name(cell) == "tc"
        ]
        for row in root.iter()
        if _name(row) == "tr" and not any(_name(up) == "tc" for up in row.iterancestors())
    )
    found.text += [_said(p, {"t"}, _NOT_SAID) for root in notes for p in root.iter() if _name(p) == "p"]
    return found


def _val(node: Any) -> str:
    return next((value for key, value in node.attrib.items() if key.endswith("}val")), "")


def _style(p: Any) -> tuple[str, str | None]:
    style, level = "", None
    for node in (n for pr in p if _name(pr) == "pPr" for n in pr):
        if _name(node) == "pStyle":
            style = _val(node)
        if _name(node) == "outlineLvl":
            level = "" if _val(node) == "9" else "h"
    return style, level


def _styles(root: Any) -> dict[str, str]:
    """Styles of headings, by outline level or by name, their own or of what they are based on."""
    based, levels = {}, {}
    for style in (s for s in root if _name(s) == "style"):
        key = next((v for k, v in style.attrib.items() if k.endswith("}styleId")), "")
        for node in style.iter():
            if _name(node) == "basedOn":
                based[key] = _val(node)
            if _name(node) == "outlineLvl":
                levels[key] = "" if _val(node) == "9" else "h"
            if _name(node) == "name" and (said := re.fullmatch(r"heading \d|(title)", _val(node).lower())):
                levels.setdefault(key, "title" if said[1] else "h")
    for key in list(based):
        at, seen = key, set()
        while at not in levels and at in based and at not in seen:
            seen.add(at)
            at = based[at]
        levels.setdefault(key, levels.get(at, ""))
    return levels


def pptx(path: str) -> Truth:
    found = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        rels = _xml(file.read("ppt/_rels/presentation.xml.rels"))
        targets = {rel.get("Id"): rel.get("Target") for rel in rels}
        order = [
            targets[value]
            for node in _xml(file.read("ppt/presentation.xml")).iter()
            if _name(node) == "sldId"
            for key, value in node.attrib.items()
            if key.endswith("}id")
        ]
        slides = [_xml(file.read(f"ppt/{name}" if not name.startswith("/") else name[1:])) for name in order]
    for slide in slides:
        paragraphs = [(p, _said(p, {"t"}, {"Fallback"})) for p in slide.iter() if _name(p) == "p"]
        found.text += [said for _, said in paragraphs]
        for shape in (s for s in slide.iter() if _name(s) == "sp"):
            kinds = [n.get("type") for n in shape.iter() if _name(n) == "ph"]
            said = " ".join(_said(p, {"t"}, set()) for p in shape.iter() if _name(p) == "p").strip()
            if said and kinds and kinds[0] in ("title", "ctrTitle"):
                found.headings.append(said)
        found.rows += _rows(
            [_said(cell, {"t"}, set()) for cell in row if _name(cell) == "tc"]
            for row in slide.iter()
            if _name(row) == "tr"
        )
    return found


def xlsx(path: str) -> Truth:
    """Cells of text; how numbers are shown is left open."""
    found = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        shared = []
        for name in (n for n in names if n.lower() == "xl/sharedstrings.xml"):
            shared = [_said(si, {"t"}, {"rPh"}) for si in _xml(file.read(name)) if _name(si) == "si"]
        rels = {r.get("Id"): r.get("Target") for r in _xml(file.read("xl/_rels/workbook.xml.rels"))}
        for sheet in (s for s in _xml(file.read("xl/workbook.xml")).iter() if _name(s) == "sheet"):
            target = rels[next(v for k, v in sheet.attrib.items() if k.endswith("}id"))]
            target = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
            if sheet.get("state") or "worksheets" not in target:
                continue
            cells = [
                [_cell(c, shared) for c in row if _name(c) == "c"]
                for row in _xml(file.read(target)).iter()
                if _name(row) == "row" and row.get("hidden") not in ("1", "true")
            ]
            if any(cell for row in cells for cell in row):
                found.headings.append(sheet.get("name"))
                found.text.append(sheet.get("name"))
            found.text += [" ".join(row) for row in cells]
            found.rows += _rows(iter(cells))
    return found


def _cell(c: Any, shared: list[str]) -> str:
    value = "".join(v.text or "" for v in c if _name(v) == "v")
    if c.get("t") == "s" and value:
        return shared[int(value)]
    return _said(c, {"t"}, {"rPh"}) if c.get("t") == "inlineStr" else value if c.get("t") == "str" else ""


# OpenDocument, and what LibreOffice makes of others


_NOT_IN_ODF = {"tracked-changes", "annotation", "desc", "title", "forms", "sequence-decls", "settings", "header",
               "footer", "note-citation", "date-time-decl", "footer-decl", "header-decl", "notes"}  # fmt: skip


_SHOWN = ("}value", "}date-value", "}time-value", "}boolean-value")  # how these are shown is left open


def odf(path: str) -> Truth:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            root = _xml(file.read("content.xml"))
    else:
        root = _xml(Path(path).read_bytes())
    body = next(node for node in root.iter() if _name(node) == "body")
    titles = _titles(path, root)
    found = Truth(headings=[], rows=[])
    sheets = any(_name(child) == "spreadsheet" for child in body)
    hidden = {
        _odf_value(style, "name")
        for style in root.iter()
        if _name(style) == "style" and any(_odf_value(inner, "display") == "false" for inner in style)
    }
    for table in [t for t in body.iter() if sheets and _name(t) == "table"]:
        if _odf_value(table, "style-name") in hidden:
            table.getparent().remove(table)
    for node in body.iter():
        above = [_name(up) for up in node.iterancestors()]
        if _name(node) in ("p", "h") and not {"p", "h"}.union(_NOT_IN_ODF).intersection(above):
            numeric = any(
                _name(up) == "table-cell" and any(k.endswith(_SHOWN) for k in up.attrib)
                for up in node.iterancestors()
            )
            inner = [] if sheets and numeric else [_odf_text(node)]
            found.text += inner
            if _name(node) == "h" and inner and inner[0].strip() and "table-cell" not in above:
                found.headings.append(inner[0])
            if inner and _odf_value(node, "style-name") in titles:
                found.open.append(inner[0])
        if (
            _name(node) == "frame"
            and _odf_value(node, "class") == "title"
            and (said := _odf_text(node).strip())
        ):
            found.headings.append(said)
        if sheets and _name(node) == "table" and _odf_text(node).strip():
            found.headings.append(_odf_value(node, "name"))
            found.text.append(_odf_value(node, "name"))
    found.rows = _rows(
        [
            "" if sheets and any(k.endswith(_SHOWN) for k in cell.attrib) else _odf_text(cell)
            for cell in row
            if _name(cell) == "table-cell"
        ]
        for row in body.iter()
        if _name(row) == "table-row" and not any(_name(up) == "table-cell" for up in row.iterancestors())
    )
    return found


def _titles(path: str, root: Any) -> set[str]:
    """The style of a document's title, and those that are based on it."""
    styles = [root]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            styles += [_xml(file.read(name)) for name in file.namelist() if name == "styles.xml"]
    based = {
        _odf_value(style, "name"): _odf_value(style, "parent-style-name")
        for top in styles
        for style in top.iter()
        if _name(style) == "style"
    }
    found = {"Title"}
    while more := {name for name, parent in based.items() if parent in found} - found:
        found |= more
    return found


def _odf_value(node: Any, name: str) -> str:
    return next((v for k, v in node.attrib.items() if k.endswith("}" + name)), "")


def _odf_text(node: Any) -> str:
    if _name(node) in _NOT_IN_ODF:
        return ""
    gap = " " if _name(node) in ("s", "tab", "line-break", "p", "h") else ""
    said = (node.text or "") + "".join(_odf_text(child) + (child.tail or "") for child in node)
    return gap + said + (" " if _name(node) in ("p", "h", "note") else "")


def by_office(path: str) -> Truth:
    """The file as LibreOffice reads it; ``_convert`` was asked for it.

    Headings of RTF that was made of a DOCX are those of the DOCX: LibreOffice writes them, and does not read
    them again.
    """
    found, source = odf(_CONVERTED[path]), Path(path).with_suffix("")
    if path.endswith(".docx.rtf") and source.exists():
        found.headings = docx(str(source)).headings
    return found


def _convert(paths: list[str], suffix: str, folder: str) -> None:
    """All of them by one run of LibreOffice, whose start takes most of the time."""
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
    _CONVERTED.update({path: str(copy.with_suffix(f".{suffix}")) for path, copy in named.items()})


# Pages, books


_GAPS = ("p", "div", "li", "td", "th", "tr", "dt", "dd", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "br", "table",
         "section", "blockquote", "figcaption", "caption", "title")  # fmt: skip


def _page(node: Any) -> Truth:
    for gone in node.find_all(["script", "style", "noscript", "template", "nav", "svg", "select", "button"]):
        gone.decompose()
    for gone in node.select("a.headerlink, a.anchor, .linenos, [hidden], [aria-hidden=true]"):
        gone.decompose()
    for block in node.find_all(_GAPS):
        block.insert_before(" ")
        block.insert_after(" ")
    heads = node.find_all(re.compile("^h[1-6]$"))
    rows = _rows(
        [cell.get_text() for cell in row.find_all(["td", "th"], recursive=False)]
        for row in node.find_all("tr")
        if not row.find("table") and not row.find_parent("td") and not _is_list(row)
    )
    return Truth([node.get_text()], [said for h in heads if (said := h.get_text().strip())], rows)


def _is_list(row: Any) -> bool:
    """Whether its cells hold nothing but lists: an index in columns."""
    cells = [cell for cell in row.find_all(["td", "th"], recursive=False) if cell.get_text().strip()]
    return bool(cells) and all(
        not "".join(cell.find_all(string=True, recursive=False)).strip()
        and {child.name for child in cell.find_all(True, recursive=False)} <= {"ul", "ol", "dl"}
        for cell in cells
    )


def html(path: str) -> Truth:
    page = BeautifulSoup(Path(path).read_bytes(), "html5lib")
    main = page.select_one("main, [role=main]") or page.select_one("article")
    if main is None:
        raise ValueError("marks no main part")
    return _page(main)


def epub(path: str) -> Truth:
    found = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        roots = _xml(file.read("META-INF/container.xml"))
        opf = next(n.get("full-path") for n in roots.iter() if _name(n) == "rootfile")
        package = _xml(file.read(opf))
        hrefs = {n.get("id"): n.get("href") for n in package.iter() if _name(n) == "item"}
        for ref in (n for n in package.iter() if _name(n) == "itemref" and n.get("linear") != "no"):
            name = os.path.normpath(Path(opf).parent / re.sub("#.*", "", hrefs[ref.get("idref")]))
            page = _page(BeautifulSoup(_text(file.read(name)), "html5lib").body)
            found.text += page.text
            found.headings += page.headings
            found.rows += page.rows
    return found


_SECTIONS = {"section", "sect1", "sect2", "sect3", "sect4", "sect5", "chapter", "appendix", "part", "preface",
             "refsect1", "refsect2", "refsection", "glossary", "simplesect"}  # fmt: skip


def docbook(path: str) -> Truth:
    root = _xml(Path(path).read_bytes())
    found = Truth(headings=[], rows=[])
    meta = {
        "articleinfo",
        "bookinfo",
        "info",
        "refmeta",
        "indexterm",
        "prefaceinfo",
        "chapterinfo",
        "sectioninfo",
        "refentryinfo",
        "screeninfo",
    }
    for node in root.iter():
        if any(_name(up) in meta for up in (node, *node.iterancestors())):
            if _name(node) == "title" and _name(node.getparent()) in meta:
                (found.headings if _name(node.getparent().getparent()) in _SECTIONS else found.open).append(
                    _all(node)
                )
            continue
        if _name(node) in ("refname", "subtitle"):
            found.open.append(_all(node))
        if _name(node) == "title":
            where = found.headings if _name(node.getparent()) in _SECTIONS else found.open
            where.append(_all(node))
    found.text = [_docbook_text(root, meta)]
    found.rows = _rows(
        [_all(cell) for cell in row if _name(cell) in ("entry", "td", "th")]
        for row in root.iter()
        if _name(row) in ("row", "tr")
    )
    return found


def _docbook_text(node: Any, skip: set[str]) -> str:
    """An entity that the file does not declare is said by its name."""
    if node.tag is etree.Entity:  # between blocks it stands for another file
        return "" if _name(node.getparent()) in _SECTIONS | {"book", "article"} else str(node.text)
    if not isinstance(node.tag, str) or _name(node) in skip:
        return ""
    if _name(node) == "textobject" and any(
        _all(n) == _all(node) for n in node.itersiblings() if _name(n) == "caption"
    ):
        return ""  # said twice of one picture
    inline = {"emphasis", "literal", "subscript", "superscript", "replaceable", "quote"}
    gap = "" if _name(node) in inline else " "
    return gap + (node.text or "") + "".join(_docbook_text(c, skip) + (c.tail or "") for c in node) + gap


def _all(node: Any) -> str:
    return " ".join("".join(node.itertext(etree.Element, etree.Entity)).split())


def fb2(path: str) -> Truth:
    root = _xml(Path(path).read_bytes())
    found = Truth(headings=[], rows=[])
    for body in (n for n in root if _name(n) == "body"):
        for p in body.iter():
            if _name(p) in ("p", "v", "subtitle", "text-author", "td", "th"):
                found.text.append(_all(p))
            if _name(p) == "title":
                said = " ".join(_all(line) for line in p if _name(line) == "p")
                (found.open if _name(p.getparent()) == "body" else found.headings).append(said)
    found.rows = _rows(
        [_all(c) for c in r if _name(c) in ("td", "th")] for r in root.iter() if _name(r) == "tr"
    )
    return found


# Markup


def rst(path: str) -> Truth:
    from docutils import nodes
    from docutils.core import publish_doctree

    options = {"report_level": 5, "halt_level": 6, "warning_stream": io.StringIO(), "file_insertion_enabled": False,
               "raw_enabled": True, "doctitle_xform": False, "docinfo_xform": False}  # fmt: skip
    tree = publish_doctree(Path(path).read_text("utf-8", "replace"), settings_overrides=options)
    found = Truth(headings=[], rows=[])
    unread = [m for m in tree.findall(nodes.system_message) if m.findall(nodes.literal_block)]
    if any("directive" in m.astext() for m in unread):
        raise ValueError("has directives that docutils does not know")
    for node in (*tree.findall(nodes.system_message), *tree.findall(nodes.comment)):
        if node.parent is not None:
            node.parent.remove(node)
    found.headings = [n.astext() for n in tree.findall(nodes.title) if isinstance(n.parent, nodes.section)]
    found.text = [n.astext() for n in tree.findall(nodes.TextElement) if not isinstance(n.parent, nodes.TextElement)
                  and not isinstance(n, (nodes.raw, nodes.target, nodes.substitution_definition))]  # fmt: skip
    found.rows = _rows(
        [cell.astext() for cell in row.findall(nodes.entry)] for row in tree.findall(nodes.row)
    )
    return found


def markdown(path: str) -> Truth:
    from markdown_it import MarkdownIt

    text = Path(path).read_text("utf-8", "replace")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.S)
    page = BeautifulSoup(MarkdownIt("commonmark", {"html": True}).enable("table").render(text), "html5lib")
    return _page(page.body)


def asciidoc(path: str) -> Truth:
    script = (
        "const a=require('@asciidoctor/core')();process.stdout.write(a.convertFile(process.argv[1],"
        "{to_file:false,standalone:false,safe:'secure',attributes:{showtitle:true}}))"
    )
    done = subprocess.run(
        ["node", "-e", script, path], cwd=_NODE, capture_output=True, check=True, timeout=60
    )
    page = BeautifulSoup(done.stdout, "html5lib").body
    for row in page.select(".admonitionblock tr, .colist tr"):
        row.name = "div"
    for title in (made := page.find_all("h1")[:1]):
        title.name = "p"  # of a manual page it is made up
    found = _page(page)
    first = Path(path).read_text("utf-8", "replace").lstrip().partition("\n")[0]
    found.open = [*(title.get_text() for title in made), first.strip("= ")]
    return found


def org(path: str) -> Truth:
    text = Path(path).read_text("utf-8", "replace")
    text = re.sub(r"(?ms)^[ \t]*:(PROPERTIES|LOGBOOK):\n.*?:END:[ \t]*$", "", text)
    text = re.sub(r"(?m)^#(?!\+).*$|^[ \t]*#\+(?!title).*$", "", text, flags=re.I)
    text = re.sub(r"\[\[[^\]]*\]\[([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"(?m)^(\*+ .*?)\s+:[\w@:]+:[ \t]*$", r"\1", text)
    heads = [
        re.sub(r"^(?:(?:TODO|DONE) )?(?:\[#.\] *)?", "", said)
        for said in re.findall(r"(?m)^\*+ +(.+?) *$", text)
    ]
    rows = _rows(line.strip().strip("|").split("|") for line in re.findall(r"(?m)^ *\|(?!-).*$", text))
    return Truth([text], heads, rows)


_HEAD = re.compile(
    r"\\(?:part|chapter|(?:sub)*section|paragraph)\*?(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}"
)


def latex(path: str) -> Truth:
    text = re.sub(r"(?<!\\)%.*", "", Path(path).read_text("utf-8", "replace"))
    body = text.partition(r"\begin{document}")[2] or text
    done = subprocess.run(["detex", "-n", "-r", path], capture_output=True, check=True, timeout=30)
    heads = [re.sub(r"\\[a-zA-Z]+\*?|[{}$~]", " ", said).strip() for said in _HEAD.findall(body)]
    return Truth([done.stdout.decode("utf-8", "replace")], heads)


def man(path: str) -> Truth:
    source = Path(path).read_text("utf-8", "replace")
    command = ["groff", "-k", "-t", "-mandoc", "-rHY=0", "-rLL=2000n", "-rLT=2000n", "-Tutf8", "-P-cbou"]
    done = subprocess.run([*command, path], capture_output=True, check=True, timeout=60)
    said = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()][1:-1]
    heads = re.findall(r"(?m)^\.\s*S[HSh]s?[ \t]+(.+?)[ \t]*$", source)
    plain = [
        re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&/,|^]|\"", "", h).replace("\\-", "-").replace("\\ ", " ")
        for h in heads
    ]
    return Truth(["\n".join(said)], plain)


def mediawiki(path: str) -> Truth:
    import mwparserfromhell

    code = mwparserfromhell.parse(Path(path).read_text("utf-8", "replace"))
    heads = [str(h.title.strip_code()).strip() for h in code.filter_headings()]
    return Truth([str(code.strip_code())], heads)


# Mail, notebooks, plain text


def mail(path: str) -> Truth:
    message = email.message_from_bytes(Path(path).read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    said = "" if body is None else body.get_content()
    if body is not None and body.get_content_subtype() == "html":
        said = "".join(_page(BeautifulSoup(said, "html5lib")).text)
    return Truth([str(message["subject"] or ""), said])


def msg(path: str) -> Truth:
    import olefile

    with olefile.OleFileIO(path) as file:
        said = []
        for code in ("0037", "1000"):
            for kind, encoding in (("001F", "utf-16-le"), ("001E", "cp1252")):
                if file.exists(f"__substg1.0_{code}{kind}"):
                    said.append(
                        file.openstream(f"__substg1.0_{code}{kind}").read().decode(encoding, "replace")
                    )
                    break
    if len(said) < 2:
        raise ValueError("has no plain body")
    return Truth(said)


def notebook(path: str) -> Truth:
    found = Truth(headings=[])
    for cell in json.loads(Path(path).read_bytes())["cells"]:
        said = "".join(cell["source"])
        found.text.append(said)
        if cell["cell_type"] == "markdown":
            found.headings += re.findall(r"(?m)^#{1,6} +(.+?)[ #]*$", said)
        if cell["cell_type"] == "raw":  # of reStructuredText, perhaps
            found.open += re.findall(r"(?m)^(.+)\n[=~^-]{3,}$", said)
    return found


def table(path: str) -> Truth:
    text = Path(path).read_text("utf-8-sig", "replace")
    dialect = csv.Sniffer().sniff(text[:5000], ",;\t|")
    rows = list(csv.reader(io.StringIO(text), dialect))
    return Truth([" ".join(row) for row in rows], None, _rows(iter(rows)))


def plain(path: str) -> Truth:
    return Truth([Path(path).read_text("utf-8", "replace")])


def subtitles(path: str) -> Truth:
    lines = _text(Path(path).read_bytes()).splitlines()
    kept = [
        line
        for line in lines
        if "-->" not in line and not line.strip().isdigit() and line.strip() != "WEBVTT"
    ]
    return Truth([re.sub(r"<[^>]*>|\{[^}]*\}", "", line) for line in kept])


def pdf(path: str) -> Truth:
    from pypdfium2 import PdfDocument

    document = PdfDocument(path)
    pages = [page.get_textpage().get_text_range().replace("\ufffe", "-").splitlines() for page in document]
    pages = [[line for line in lines if line.strip()] for lines in pages]
    edges = Counter(key for lines in pages for key in {_edge(line) for line in (*lines[:2], *lines[-2:])})
    often = {key for key, count in edges.items() if count >= max(3, len(pages) / 10)}
    body = [
        [
            line
            for at, line in enumerate(lines)
            if not ((at < 2 or at >= len(lines) - 2) and _edge(line) in often)
        ]
        for lines in pages
    ]
    keys = [[_letters(line) for line in lines] for lines in pages]
    heads, free = [], []
    for entry in document.get_toc():
        title, dest = entry.get_title(), entry.get_dest()
        at = dest.get_index() if dest else None
        if at is None or len(re.findall("[a-z]", _letters(title))) < 3:
            free.append(title)  # a version, a letter of an index: too short to be told from other lines
            continue
        lines = keys[at]
        joined = ("".join(lines[n : n + k]) for n in range(len(lines)) for k in (1, 2, 3))
        if any(said.endswith(_letters(title)) and len(said) < len(_letters(title)) + 10 for said in joined):
            heads.append(title)
        else:
            free.append(title)
    text = re.sub(
        r"(?<=[a-z])[-\u00ad\x02]\n(?=[a-z])", "", "\n".join(line for lines in body for line in lines)
    )
    return Truth([text], heads or None, None, free)


def _edge(line: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(line.split()))


def _letters(line: str) -> str:
    return re.sub(r"[\W_]+", "", line).casefold()


READ = {
    **{"docx": docx, "pptx": pptx, "xlsx": xlsx, "odt": odf, "ods": odf, "odp": odf, "rtf": by_office},
    **{"doc": by_office, "xls": by_office, "ppt": by_office, "html": html, "epub": epub, "docbook": docbook},
    **{
        "fb2": fb2,
        "rst": rst,
        "markdown": markdown,
        "asciidoc": asciidoc,
        "org": org,
        "latex": latex,
        "man": man,
    },
    **{"mediawiki": mediawiki, "mail": mail, "msg": msg, "notebook": notebook, "csv": table, "code": plain},
    **{
        "text": plain,
        "subtitles": subtitles,
        "pdf": pdf,
        "json": plain,
        "yaml": plain,
        "toml": plain,
        "xml": plain,
    },
}
_NODE = ""
_CONVERTED: dict[str, str] = {}


def main(output: str, node: str) -> None:
    global _NODE
    _NODE = node
    items = [json.loads(line) for line in sys.stdin]
    with tempfile.TemporaryDirectory() as folder:
        for suffix, formats in (("odt", {"rtf", "doc"}), ("ods", {"xls"}), ("odp", {"ppt"})):
            if paths := [path for _, path, kind in items if kind in formats]:
                inside = Path(folder) / suffix
                inside.mkdir()
                _convert(paths, suffix, str(inside))
        _read(items, output)


def _read(items: list[list[str]], output: str) -> None:
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(5000)
    with Path(output).open("w", encoding="utf-8") as file:
        for key, path, kind in items:
            try:
                found = READ[kind](path)
            except Exception as error:  # noqa: BLE001  such a document is left out, and said
                print(f"{key}: {type(error).__name__}: {error}"[:160], file=sys.stderr)
                continue
            said = "\n".join(found.text).encode("utf-8", "replace").decode()
            file.write(json.dumps([key, said, found.headings, found.rows, found.open]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
