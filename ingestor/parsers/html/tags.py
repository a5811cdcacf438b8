"""Whether the tags of an HTML page can be built into a tree in reasonable time. Pure.

Measured on selectolax 1.0.2: 100,000 nested ``div`` take a minute; 200,000 attributes of one tag take two. A
thousand formatting tags left open are repeated inside every paragraph that follows. So the stack of open
elements is estimated here, in linear time and rather too high. Elements that may be left open by the rules of
HTML don't count; tags inside scripts and comments do.
"""

import re

from ingestor.ports import BadDocument


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
    """Check the tags of a source, and return their names. Raises BadDocument beyond a limit."""
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
