"""Whether the tags of an HTML page can be built into a tree in reasonable time. Pure.

Measured on selectolax 1.0.2: 100,000 nested ``div`` take a minute; 200,000 attributes of one tag take two. A
thousand formatting tags left open are repeated inside every paragraph that follows. So the stack of open
elements is estimated here, in linear time and rather too high. Elements that may be left open by the rules of
HTML don't count; tags inside scripts and comments do. For nearly all pages, which hold few open elements even
if no tag closes itself, one look at the tags' names is enough.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ingestor.ports import BadDocument


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DEEPEST = 1000  # elements; browsers stop at 512
_ATTRIBUTES = 2000  # of one tag
_LONG_TAG = 4096  # characters; a shorter one can't have as many attributes
_REPEATED = 10  # formatting elements that are open at a tag, on average
_FREE = 100_000  # of them
_WRITTEN = re.compile(r"<(/?[a-zA-Z][^>]*)")
_EACH_WRITTEN = re.compile(r"<(/?[a-zA-Z][^<>]*)")  # in nearly twice the time
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9:-]*")
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)([^<>]*)")  # the flag for both cases takes twice the time
_QUOTED = re.compile("\"[^\"]*\"|'[^']*'")
_ROUNDS = 4  # of which each takes the innermost elements away
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


def check(source: str) -> dict[str, str]:
    """Check the tags of a source, and return the name of each distinct tag by the tag's text.

    The name of an end tag begins with a slash. Raises BadDocument.
    """
    tags = _WRITTEN.findall(source)
    if any("<" in tag for tag in frozenset(tags)):
        tags = _EACH_WRITTEN.findall(source)
    names = {tag: _name(tag) for tag in frozenset(tags)}
    if not is_plain(tags, names) or max(map(len, names), default=0) >= _LONG_TAG:
        check_all(source)
    return names


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[0].lower() if match else ""


def is_plain(tags: Sequence[str], names: Mapping[str, str]) -> bool:
    """Whether the tags are too few for depth or repetition. ``names``: as ``check`` gives them."""
    steps = {tag: _step(name) for tag, name in names.items()}
    if _most_open("".join(map(steps.__getitem__, tags))) > _DEEPEST:
        return False
    repeated = {tag for tag, name in names.items() if name.removeprefix("/") in _FORMATTING}
    formatting = filter(repeated.__contains__, tags) if repeated else ()
    return _most_open("".join(map(steps.__getitem__, formatting))) <= _REPEATED


def _step(name: str) -> str:
    """Whether the tag opens or closes an element; "" of those that may be left open."""
    if name.removeprefix("/") in _LEFT_OPEN:
        return ""
    return ")" if name.startswith("/") else "("


def _most_open(steps: str) -> int:
    """Return an upper bound of the elements that are open at once."""
    closed = 0
    while closed < _ROUNDS and "()" in steps:
        steps, closed = steps.replace("()", ""), closed + 1
    opened = [*accumulate((1 if step == "(" else -1 for step in steps), initial=0)]
    return max(opened) - min(opened) + closed


def check_all(source: str) -> None:
    """Estimate depth, unclosed formatting and attributes tag by tag. Raises BadDocument beyond a limit."""
    elements = formatting = repeated = 0  # open at this tag; of formatting ones, the sum over all tags
    foreign = False
    for tags, (end, name, rest) in enumerate(_TAG.findall(source)):
        name = name.lower()
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
        if len(rest) > _LONG_TAG and _attributes(rest) > _ATTRIBUTES:
            raise BadDocument(f"has a tag with more than {_ATTRIBUTES:,} attributes; exclude it")


def _attributes(rest: str) -> int:
    return len(_QUOTED.sub(" ", rest).split())
