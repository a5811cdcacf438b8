"""HTML, and formats made of it: EPUB, FictionBook, DocBook."""

import os
import re
import zipfile
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from lxml import etree

from benchmarks.converters.truths.shape import Truth, decoded, local, tabular, xml

_GAPS = ("p", "div", "li", "td", "th", "tr", "dt", "dd", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "br",
         "table", "section", "blockquote", "figcaption", "caption", "title")  # fmt: skip


def shown(node: Any) -> Truth:
    for gone in node.find_all(["script", "style", "noscript", "template", "nav", "svg", "select", "button"]):
        gone.decompose()
    for gone in node.select("a.headerlink, a.anchor, .linenos, [hidden], [aria-hidden=true]"):
        gone.decompose()
    for block in node.find_all(_GAPS):
        block.insert_before(" ")
        block.insert_after(" ")
    heads = node.find_all(re.compile("^h[1-6]$"))
    rows = tabular(
        [cell.get_text() for cell in row.find_all(["td", "th"], recursive=False)]
        for row in node.find_all("tr")
        if not row.find("table") and not row.find_parent("td") and not _is_list(row)
    )
    return Truth([node.get_text()], [title for h in heads if (title := h.get_text().strip())], rows)


def _is_list(row: Any) -> bool:
    """Return whether a row's cells have only lists: an index in columns."""
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
    return shown(main)


def epub(path: str) -> Truth:
    truth = Truth(headings=[], rows=[])
    with zipfile.ZipFile(path) as file:
        roots = xml(file.read("META-INF/container.xml"))
        opf = next(n.get("full-path") for n in roots.iter() if local(n) == "rootfile")
        package = xml(file.read(opf))
        hrefs = {n.get("id"): n.get("href") for n in package.iter() if local(n) == "item"}
        for ref in (n for n in package.iter() if local(n) == "itemref" and n.get("linear") != "no"):
            name = os.path.normpath(Path(opf).parent / re.sub("#.*", "", hrefs[ref.get("idref")]))
            page = shown(BeautifulSoup(decoded(file.read(name)), "html5lib").body)
            truth.text += page.text
            truth.headings += page.headings
            truth.rows += page.rows
    return truth


_SECTIONS = {"section", "sect1", "sect2", "sect3", "sect4", "sect5", "chapter", "appendix", "part", "preface",
             "refsect1", "refsect2", "refsection", "glossary", "simplesect"}  # fmt: skip


def docbook(path: str) -> Truth:
    root = xml(Path(path).read_bytes())
    truth = Truth(headings=[], rows=[])
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
        if any(local(up) in meta for up in (node, *node.iterancestors())):
            if local(node) == "title" and local(node.getparent()) in meta:
                (truth.headings if local(node.getparent().getparent()) in _SECTIONS else truth.open).append(
                    _all(node)
                )
            continue
        if local(node) in ("refname", "subtitle"):
            truth.open.append(_all(node))
        if local(node) == "title":
            where = truth.headings if local(node.getparent()) in _SECTIONS else truth.open
            where.append(_all(node))
    truth.text = [_docbook_text(root, meta)]
    truth.rows = tabular(
        [_all(cell) for cell in row if local(cell) in ("entry", "td", "th")]
        for row in root.iter()
        if local(row) in ("row", "tr")
    )
    return truth


def _docbook_text(node: Any, skip: set[str]) -> str:
    """Return the text of a node; an undeclared entity is its name."""
    if node.tag is etree.Entity:  # between blocks an entity stands for another file
        return "" if local(node.getparent()) in _SECTIONS | {"book", "article"} else str(node.text)
    if not isinstance(node.tag, str) or local(node) in skip:
        return ""
    if local(node) == "textobject" and any(
        _all(n) == _all(node) for n in node.itersiblings() if local(n) == "caption"
    ):
        return ""  # the second description of one picture
    inline = {"emphasis", "literal", "subscript", "superscript", "replaceable", "quote"}
    gap = "" if local(node) in inline else " "
    return gap + (node.text or "") + "".join(_docbook_text(c, skip) + (c.tail or "") for c in node) + gap


def _all(node: Any) -> str:
    return " ".join("".join(node.itertext(etree.Element, etree.Entity)).split())


def fb2(path: str) -> Truth:
    root = xml(Path(path).read_bytes())
    truth = Truth(headings=[], rows=[])
    for body in (n for n in root if local(n) == "body"):
        for p in body.iter():
            if local(p) in ("p", "v", "subtitle", "text-author", "td", "th"):
                truth.text.append(_all(p))
            if local(p) == "title":
                title = " ".join(_all(line) for line in p if local(line) == "p")
                (truth.open if local(p.getparent()) == "body" else truth.headings).append(title)
    truth.rows = tabular(
        [_all(c) for c in r if local(c) in ("td", "th")] for r in root.iter() if local(r) == "tr"
    )
    return truth
