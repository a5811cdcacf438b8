"""The tree of an HTML page, reduced to the text that a reader sees.

Hidden elements are removed, and inline elements become text. Inner elements are removed before outer ones,
because removing an element frees all elements inside it.

Tags are checked before the tree is built, because some pages take the library far too long. Measured on
selectolax 1.0.2: 100,000 nested ``div`` take a minute, and 200,000 attributes of one tag take two. A thousand
formatting tags left open are repeated inside every paragraph that follows. ``check`` estimates the number of
open elements in linear time. Elements that HTML allows to stay open are not counted, tags inside scripts and
comments are: the estimate may be too high.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from ingestor.core.completeness import words as count_words
from ingestor.parsers.shared.formulas import linear
from ingestor.parsers.shared.numbers import raise_digits
from ingestor.ports import BadDocument

Node = Any  # selectolax.lexbor.LexborNode


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BREAK = "\0"  # stands for <br>; the tree holds no NUL
BLOCKS = words(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol "
    "p pre section summary table tbody td tfoot th thead tr ul"
)
_NEVER = words(
    "script style template noscript noframes noembed iframe canvas audio video object select datalist button "
    "textarea input title"
)
_INLINE = words(
    "a abbr b bdi bdo cite em font i ins kbd mark q ruby rb samp small span strong sub sup tt u var wbr"
)
# Classes and ids that generators of sites and manuals give to what surrounds the content.
_AROUND_NAMES = words(
    "nav navbar navigation navheader navfooter sidebar sphinxsidebar related breadcrumb breadcrumbs footer "
    "site-header site-footer page-header page-footer menu skip-link cookie-banner cookie-consent"
)
_AROUND_ROLES = words("navigation banner contentinfo complementary search menu menubar")
_CELL_ROLES = words("cell gridcell columnheader rowheader")
_ANCHORS = words(
    "headerlink permalink anchor anchorjs-link header-anchor heading-anchor footnote-back footnote-backref "
    "reversefootnote"
)
_HIDING = (("display", "none"), ("visibility", "hidden"), ("mso-hide", "all"))
_LINE_NUMBERS = words("linenos lineno linenodiv lnt gutter rouge-gutter line-number line-numbers")
_TITLED = "h1, h2, h3, h4, h5, h6, dt, summary"  # elements whose text a button may be
_VOID = "area|base|br|col|embed|frame|hr|img|input|link|meta|param|source|track|wbr"
_EMPTY = re.compile(  # an element without content, as XML writes it; XML allows no "<" in an attribute
    rf"<(?!(?:{_VOID})\b)([a-z][\w:.-]*+)((?:[^<>\"'/]|\"[^<\"]*+\"|'[^<']*+'|/(?!>))*+)/>", re.IGNORECASE
)
_APART = words("block flex grid list-item table table-cell table-row")  # displays of elements
_FIRST = re.compile(r"[\w-]+")
_STRIKING = ("text-decoration", "text-decoration-line")
_STRUCK_TAGS = words("del s strike")
_LONGEST_READING = 100  # characters of a ruby annotation
_PERMALINK = re.compile("(?=\\s*+[#¶§🔗⚓\u200b])[\\s\u200b]*+[#¶§🔗⚓]?[\\s\u200b\ufe0f]*")
_FILE = re.compile(r"\S+\.\w{3,4}", re.ASCII)
_STYLED = re.compile(r"\{\\(?:display|text)style (.*)\}", re.DOTALL)
_NOTED = ("class", "role", "epub\\:type")  # attributes that mark a link to a note
_ABSOLUTE = ("https://", "http://", "mailto:")
_FROM_EAST = 0x2E80  # the first character of scripts that are read without spaces
_DEEPEST_FORMULA = 60  # elements in each other
_ENOUGH = 140  # visible characters that make an element the page's main content


class HtmlPage:
    """An HTML page, reduced to the text that a reader sees.

    ``main``: leave out whatever surrounds the main content. ``links``: keep the addresses of links.
    ``left_out``: number of words left out, by reason.
    """

    def __init__(self, source: str, *, main: bool, links: bool) -> None:
        """Parse the page. Raises BadDocument if its tags exceed a limit (see ``check``)."""
        from selectolax.lexbor import LexborHTMLParser  # loaded with the first page, not with the program

        self._source, self._names = source, check(source)
        self.tree = LexborHTMLParser(source)
        if self.tree.root is None:
            raise BadDocument("contains no readable HTML; repair it, or exclude it")
        self.left_out = Counter[str]()
        self.has_scripts = "script" in self._names
        for picture in self._each("figure img", "figure svg", "figure video", "figure canvas"):
            if figure := _figure_of(picture):
                figure.attrs["data-figure"] = picture.attributes.get("src") or ""
        if "svg" in self._names:
            self.tree.strip_tags(["svg"])  # a drawing has a title of its own
        title = self.tree.css_first("title")
        self.title = one_line(title.text()) if title else ""
        self._keep_titles()
        self._write_inputs()
        self.tree.strip_tags([*_NEVER & self._names])  # each is looked for in the whole tree
        for picture in self._each("img[class*=mwe-math]"):  # MediaWiki hides the formula beside it
            picture.replace_with(_in_tex(picture.attributes.get("alt") or ""))
        for cell in self._each(*(f"[role={name}]" for name in _CELL_ROLES)):
            cell.insert_after(" ")
        self._leave_out_line_numbers()
        self._leave_out_permalinks()
        self._leave_out(main=main)
        self._replace(links)
        if not links:
            self.tree.unwrap_tags([*_INLINE & self._names])
        self.tree.merge_text_nodes()

    @property
    def root(self) -> Node:
        return self.tree.body or self.tree.root

    def content(self) -> list[Node]:
        """Return the elements of the main content: the element marked as such, and headings 1 outside of it.

        Return the whole page if no element, or more than one, is marked, or if the marked one is nearly
        empty. The words of all other elements count as left out.
        """
        root = self.root
        for marked in ("main, [role=main]", "article"):
            marks = self.tree.css(marked)
            text = marks[0].text() if len(marks) == 1 else ""
            if any(len(one_line(part)) >= _ENOUGH for part in (text[: 10 * _ENOUGH], text)):
                content = _with_title(marks[0])
                inside = {heading.mem_id for heading in content.css("h1")}
                nodes = {
                    one.mem_id: one if one.tag != "h1" else _lead(one)
                    for one in root.css(f"h1, {content.tag}")
                    if one.mem_id == content.mem_id or (one.tag == "h1" and one.mem_id not in inside)
                }
                distinct = [*{node.mem_id: node for node in nodes.values()}.values()]
                size = sum(map(raw_words, distinct))
                self.left_out["what surrounds the main content"] = max(0, raw_words(root) - size)
                return distinct
        return [root]

    def _each(self, *selectors: str) -> Iterator[Node]:
        """Return the elements that match one of the selectors, each before the elements that contain it.

        So each can be removed or replaced, although this frees all elements inside it.
        """
        present = [one for one in selectors if self._may_occur(one)]
        nodes = reversed(self.tree.css(", ".join(present))) if present else ()
        return iter({node.mem_id: node for node in nodes}.values())

    def _may_occur(self, selector: str) -> bool:
        """Return whether the page has the selector's first word; else the tree need not be searched."""
        first = _FIRST.search(selector)
        assert first is not None
        return first[0] in (self._names if first.start() == 0 else self._source)

    def _keep_titles(self) -> None:
        """Unwrap buttons that are the text of a heading or term, or hold a heading, as in accordions."""
        if "button" not in self._names:
            return
        for titled in self.tree.css(_TITLED):
            buttons = titled.css("button")
            if buttons and one_line(titled.text()) == one_line("".join(button.text() for button in buttons)):
                buttons[0].unwrap()
        for button in self._each("button"):
            if button.css_first(_TITLED):
                button.unwrap()

    def _write_inputs(self) -> None:
        """Write formulas in scripts, and check boxes of list items, as text, before they are removed."""
        for script in self._each("script[type^='math/tex']"):
            if not _is_rendered(script):
                script.replace_with(f" {_in_tex(script.text())} ")
        for box in self._each("li input[type=checkbox]"):
            box.replace_with("\u2612 " if "checked" in box.attributes else "\u2610 ")

    def _leave_out_line_numbers(self) -> None:
        for node in self._each(*(f".{name}" for name in _LINE_NUMBERS), "pre .ln"):
            if "".join(node.text().split()).isdigit():
                self.left_out["navigation and hidden parts"] += raw_words(node)
                node.decompose()

    def _leave_out_permalinks(self) -> None:
        """Remove links to a heading or term from its text, which are only a mark such as "#" or "¶"."""
        for link in self._each(*(f"{tag} a" for tag in ("h1", "h2", "h3", "h4", "h5", "h6", "dt"))):
            if _PERMALINK.fullmatch(link.text()):
                link.decompose()

    def _leave_out(self, *, main: bool) -> None:
        """Remove hidden and struck-out elements, and if ``main`` navigation and the like; count words."""
        titled = set[int]()  # elements around headings 1
        for heading in self.tree.css("h1") if main else ():
            node = heading.parent
            while node is not None and node.mem_id not in titled:
                titled.add(node.mem_id)
                node = node.parent
        around = ("nav", "aside", "footer", "[role]", *_selectors(_AROUND_NAMES)) if main else ()
        hidden = ("[hidden]", "[aria-hidden=true]", "[style]", "dialog", ".mw-editsection")
        for node in self._each("del", "s", "strike", *hidden, *_selectors(_ANCHORS), *around):
            tag, attributes = node.tag, node.attributes
            style = styles(attributes)
            if tag in ("html", "body"):
                continue
            if tag in _STRUCK_TAGS or any("line-through" in style.get(name, "") for name in _STRIKING):
                self.left_out["struck-out text"] += raw_words(node)
            elif (
                attributes.get("hidden", "until-found") != "until-found"
                or (tag == "dialog" and "open" not in attributes)
                or attributes.get("aria-hidden") == "true"
                or any(style.get(name, "").startswith(value) for name, value in _HIDING)
                or "mw-editsection" in _class_names(attributes)
                or (tag == "a" and not _ANCHORS.isdisjoint(_class_names(attributes)))
                or (main and _surrounds(tag, attributes, titled=node.mem_id in titled))
            ):
                self.left_out["navigation and hidden parts"] += raw_words(node)
            else:
                if tag in _INLINE and style.get("display") in _APART:
                    node.insert_before(" ")
                    node.insert_after(" ")
                continue
            node.decompose()

    def _replace(self, links: bool) -> None:
        """Replace formulas, pictures, ruby readings, superscripts and, if ``links``, links by text."""
        for math in self._each("math"):
            noted = math.css_first("annotation[encoding*=tex]")
            in_tex = math.attributes.get("alttext") or (noted.text() if noted else "")
            math.replace_with(_in_tex(in_tex) if in_tex else _formula(math))
        for picture in self._each("img"):
            description = _in_tex(picture.attributes.get("alt") or "")
            picture.replace_with("" if _FILE.fullmatch(description) else f" {description} ")
        for ruby in self._each("ruby"):
            _set_behind(ruby)
        for high in self._each(
            "sup", *(f"a[{name}*=noteref]" for name in _NOTED if "noteref" in self._source)
        ):
            text = high.text().strip()  # once for each, not for all that are in each other
            if len(text) < 20 and (number := raise_digits(text)) != text:
                high.replace_with(number)
        bare = {link.mem_id for link in self.tree.css("h1 a, h2 a, h3 a, h4 a, h5 a, h6 a, dt a, caption a")}
        for link in self._each("a[href]") if links else ():
            if link.mem_id in bare:
                continue
            address, text = (link.attributes.get("href") or "").strip(), link.text()
            if not address.startswith(_ABSOLUTE) or any(child.tag in BLOCKS for child in children(link)):
                continue
            if text.strip() and text.strip() not in address:
                link.replace_with(f"[{one_line(text)}]({address})")


def close_empty_elements(source: str) -> str:
    """Return an XHTML page with an end tag for each element that ``/>`` ends, such as ``<title/>``.

    HTML ignores the slash, so all text behind such a title would be the title.
    """
    return _EMPTY.sub(r"<\1\2></\1>", source)


def _selectors(names: Iterable[str]) -> Iterator[str]:
    """Yield CSS selectors of the elements that have one of the names as a class or as their id."""
    return (f"{mark}{name}" for name in names for mark in ".#")


def _class_names(attributes: Mapping[str, str | None]) -> list[str]:
    return f"{attributes.get('class') or ''} {attributes.get('id') or ''}".split()


def _surrounds(tag: str, attributes: Mapping[str, str | None], *, titled: bool) -> bool:
    """Return whether an element surrounds the main content, as navigation, a sidebar or a footer does.

    ``titled``: whether the element holds a heading 1; such an element counts only if it is navigation.
    """
    if tag == "main":
        return False
    role = attributes.get("role")
    if tag == "nav" or role == "navigation":
        return True
    around = tag in ("aside", "footer") or role in _AROUND_ROLES
    return not titled and (around or not _AROUND_NAMES.isdisjoint(_class_names(attributes)))


def styles(attributes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the CSS properties that an element's ``style`` attribute sets, in lower case."""
    rules = (attributes.get("style") or "").lower().split(";")
    pairs = (declaration.partition(":") for declaration in rules)
    return {name.strip(): value.strip() for name, _, value in pairs}


def children(node: Node) -> Iterator[Node]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def raw_words(node: Node) -> int:
    """Count the words in an element's text. A soft hyphen does not separate words."""
    return count_words(node.text(separator=" ").replace("\xad", ""))


def one_line(text: str) -> str:
    return " ".join(text.replace(BREAK, " ").replace("\xad", "").split())


def _in_tex(description: str) -> str:
    description = description.strip()
    last = description.rfind("}") + 1  # behind it each beginning would be followed to the end, in vain
    return _STYLED.sub(r"\1", description[:last]) + description[last:]


def _is_rendered(script: Node) -> bool:
    """Return whether MathJax wrote the formula of a script into the page, directly before it."""
    before = script.prev
    return before is not None and any(name.startswith("MathJax") for name in _class_names(before.attributes))


def _formula(math: Node) -> str:
    """Return a MathML formula as a line of text; unformatted if it is nested too deep."""
    root = Element("math")
    todo = [(math, root, 0)]
    while todo:
        node, element, depth = todo.pop()
        if depth > _DEEPEST_FORMULA:
            return str(math.text())
        for child in children(node):
            if child.is_text_node:
                element.text = (element.text or "") + (child.text_content or "")
            elif child.tag[:1].isalpha():  # no comment
                inside = SubElement(
                    element, child.tag, {name: value or "" for name, value in child.attributes.items()}
                )
                todo.append((child, inside, depth + 1))
    return linear(root)


def _figure_of(picture: Node) -> Node | None:
    """Return the ``figure`` element around a picture, at most five levels above; None if there is none."""
    node = picture.parent
    for _ in range(5):
        if node is None or node.tag == "figure":
            return node
        node = node.parent
    return None


def _set_behind(ruby: Node) -> None:
    """Move the readings in a ``ruby`` element behind the characters that they explain, in parentheses."""
    readings: list[str] = []
    for part in [child for child in children(ruby) if child.tag in ("rp", "rt", "rtc")]:
        text = part.text()
        if len(text) > _LONGEST_READING:
            continue
        if part.tag != "rp":
            readings.append(one_line(text))
        part.decompose()
    texts = [reading for reading in readings if reading]
    apart = "" if all(ord(reading[0]) >= _FROM_EAST for reading in texts) else " "
    if texts:
        ruby.insert_after(f"({apart.join(texts)})")


def _with_title(content: Node) -> Node:
    """Return the innermost element around the content that holds a heading 1; else the content itself.

    JSDoc, for example, puts the title before the article, and both into one element. The whole page is never
    returned.
    """
    node = content
    while node is not None and node.tag not in ("body", "html"):
        if node.css_first("h1"):
            return node
        node = node.parent
    return content


def _lead(heading: Node) -> Node:
    """Return the heading's parent if that is the page's header; else the heading."""
    around = heading.parent
    named = around is not None and "page-header" in (around.attributes.get("class") or "").split()
    return around if around is not None and (named or around.tag in ("header", "hgroup")) else heading


# --- check of the tags -------------------------------------------------------------------------------------

_DEEPEST = 1000  # elements; browsers stop at 512
_ATTRIBUTES = 2000  # of one tag
_LONG_TAG = 4096  # characters; a shorter one can't have as many attributes
_REPEATED = 10  # formatting elements that are open at a tag, on average
_FREE = 100_000  # of them
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)([^<>]*)")  # the flag for both cases takes twice the time
_QUOTED = re.compile("\"[^\"]*\"|'[^']*'")
_FORMATTING = words("b big code em font i nobr s small strike strong tt u")
_LEFT_OPEN = words(
    "a p li dt dd tr td th thead tbody tfoot caption colgroup option optgroup rp rt rb rtc html head body "
    "area base br col embed hr img input link meta param source track wbr basefont frame keygen"
)
_FOREIGN = frozenset(("svg", "math"))  # in these, and only there, a tag may close itself
_HTML = _FORMATTING | words(
    "blockquote body br center dd div dl dt embed form h1 h2 h3 h4 h5 h6 head hr img li listing main menu "
    "meta ol p pre ruby section span sub sup table td th tr ul var"
)


def check(source: str) -> frozenset[str]:
    """Return the names of all tags in an HTML source.

    Raises BadDocument if the nesting, the attributes of a tag or the open formatting tags exceed a limit.
    """
    elements = formatting = repeated = 0  # open at this tag; of formatting ones, the sum over all tags
    foreign, names = False, set[str]()
    for tags, (end, name, rest) in enumerate(_TAG.findall(source)):
        name = name.lower()
        names.add(name)
        if name in _FORMATTING:
            formatting += -1 if end else 1
            formatting = max(0, formatting)
        elif name not in _LEFT_OPEN and not (foreign and rest.endswith("/")):
            elements += -1 if end else 1
            if elements > _DEEPEST:
                raise BadDocument(f"has elements nested more than {_DEEPEST:,} deep; exclude it")
            elements = max(0, elements)
        if name in _FOREIGN:
            foreign = not end
        elif foreign and name in _HTML:
            foreign = False
        repeated += formatting
        if repeated > _FREE + _REPEATED * tags:
            raise BadDocument("has too many formatting tags that are never closed; exclude it, or repair it")
        if len(rest) > _LONG_TAG and len(_QUOTED.sub(" ", rest).split()) > _ATTRIBUTES:
            raise BadDocument(f"has a tag with more than {_ATTRIBUTES:,} attributes; exclude it")
    return frozenset(names)
