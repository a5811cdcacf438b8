"""HTML: the text a reader sees, with headings, lists, tables and code.

``selectolax`` makes the tree as browsers do, whatever the markup. Work is bounded beforehand: a page whose
tags nest too deep, or whose unclosed formatting would be repeated without end, is refused by a look at
its tags, for the tree builder takes quadratic time there.
"""

import re
from typing import Any, Literal

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.html.skipped import told
from ingestor.parsers.html.tags import check
from ingestor.parsers.html.tags import words as names
from ingestor.parsers.html.walk import NEVER, TO_LOOK_AT, PageWalk, one_line
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

_CHARSET = re.compile(rb"charset\s*=\s*+[\"']?\s*+([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page may name its encoding
_UNSEEN = frozenset(tag for tag in NEVER if tag.isalpha())
_INLINE = names(
    "a abbr b bdi bdo cite code em font i kbd mark q s samp small span strong sub sup tt u var wbr"
)
_AUTHOR = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author")
_DATE = (
    *("date", "article:published_time", "dc.date", "dcterms.date", "dcterms.created", "dcterms.issued"),
    *("citation_publication_date", "article:modified_time", "last-modified", "dcterms.modified"),
)


class HtmlOptions(Options):
    mode: Literal["main", "full"] = Field(
        default="main",
        description="`main` leaves out navigation, sidebars, headers and footers, and takes only what is "
        "marked as the main content where the page marks it; `full` takes all that is visible",
    )
    links: bool = Field(
        default=False,
        description="whether links to other sites keep their addresses: `[text](https://…)`; they are found"
        " then, but take up room in chunks",
    )


class HtmlParser:
    isolated = True

    def __init__(self, options: HtmlOptions) -> None:
        self._main, self._links = options.mode == "main", options.links

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text, or its tags are tangled beyond reason."""
        return self.read(decode(blob.data, _encoding(blob)), _content_type(blob))

    def read(self, source: str, content_type: str = "text/html") -> Document:
        tree, tags, told = _tree(source, self._links)
        page = self._page(tree.root, told)
        about = _about(tree)
        title = tree.css_first("title")
        titled = one_line(title.text()) if title else ""
        language = _language(tree, about)
        lost = _lost(tree, page)
        raw_words = _raw_words(tree, tags, page)  # last: it takes the tree apart
        return Document(
            text=page.composer.text,
            blocks=tuple(page.composer.blocks),
            content_type=content_type,
            title=titled or page.first_heading,
            language=language,
            extra=tuple((key, value) for key, value in _extra(about) if value),
            raw_words=raw_words,
            left_out=page.composer.left_out,
            lost=lost,
        )

    def add(self, composer: Composer, source: str) -> int:
        """Add the blocks of all that is visible. Returns how many words the page holds."""
        tree, tags, told = _tree(source, self._links)
        page = PageWalk(told, False, self._links, composer)
        page.walk(tree.root)
        return _raw_words(tree, tags, page)

    def _page(self, root: Any, told: frozenset[str]) -> PageWalk:
        """All of the page where its main content is nowhere to be seen."""
        page = PageWalk(told, self._main, self._links)
        page.walk(root)
        if not page.composer.blocks and self._main:
            page = PageWalk(told, False, self._links)
            page.walk(root)
        return page


def _tree(source: str, links: bool) -> tuple[Any, frozenset[str], frozenset[str]]:
    """The tree, the names of the page's tags, and of the elements that are to be looked at."""
    from selectolax.lexbor import LexborHTMLParser  # loaded with the first page, not with the program

    tags = check(source)
    tree = LexborHTMLParser(source)
    if tree.root is None:
        raise BadDocument("no HTML could be read from it")
    found, looked_at = frozenset(tags.values()), TO_LOOK_AT | told(tags, TO_LOOK_AT)
    if not links:  # they matter where a block stands in a link
        tree.unwrap_tags([*(_INLINE & found) - looked_at])
        tree.merge_text_nodes()
    return tree, found, looked_at


def _raw_words(tree: Any, tags: frozenset[str], page: PageWalk) -> int:
    """Words of the whole page; those outside its main content count as left out."""
    tree.strip_tags([*_UNSEEN & tags])  # each is looked for in the whole tree
    tree.unwrap_tags([*_INLINE & tags])
    tree.merge_text_nodes()
    body, content = tree.body or tree.root, page.content
    text = body.text(separator=" ")
    if content.tag in ("html", "body"):
        return words(text)
    inner = content.text(separator=" ")
    outside = words(text.replace(inner, " ", 1))
    page.composer.leave_out("what surrounds the main content", outside)
    return outside + words(inner)


def _lost(tree: Any, page: PageWalk) -> tuple[str, ...]:
    if page.composer.blocks or tree.css_first("script") is None:
        return ()
    return ("its text is made by scripts, which are not run: save the page as a browser shows it",)


def _encoding(blob: Blob) -> str | None:
    """As the source declares it, else as the page does."""
    sent = _DECLARED.search(blob.content_type or "")
    if sent:
        return sent[1]
    named = _CHARSET.search(blob.data, 0, _HEAD)
    return named[1].decode("ascii", "replace") if named else None


def _content_type(blob: Blob) -> str:
    return "application/xhtml+xml" if blob.name.lower().endswith((".xhtml", ".xht")) else "text/html"


def _about(tree: Any) -> dict[str, str]:
    """The page's meta elements, the first of each name."""
    found: dict[str, str] = {}
    for meta in tree.css("meta[content]"):
        attributes = meta.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("http-equiv") or ""
        found.setdefault(name.lower(), one_line(attributes.get("content") or ""))
    return found


def _extra(about: dict[str, str]) -> list[tuple[str, str | None]]:
    return [("author", _first(about, _AUTHOR)), ("date", _first(about, _DATE))]


def _first(about: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((about[name] for name in names if about.get(name)), None)


def _language(tree: Any, about: dict[str, str]) -> str | None:
    html = tree.css_first("html")
    attributes = html.attributes if html else {}
    declared = attributes.get("lang") or attributes.get("xml:lang") or about.get("content-language") or ""
    return declared.strip().replace("_", "-") or None


PLUGIN = Plugin(kind="html", version=3, options=HtmlOptions, build=HtmlParser)
