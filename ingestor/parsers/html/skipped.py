"""Which elements of a page are skipped: what surrounds its content, hidden ones, links to themselves. Pure.

To ask each element for its attributes takes most of the time, so ``told`` finds out from the page's
tags, each once, which elements have attributes that matter. It may name too many, never too few.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ingestor.parsers.html.nodes import LANGUAGE, is_named
from ingestor.parsers.html.tags import words

AROUND_TAGS = frozenset(("nav", "aside", "footer"))
_AROUND_ROLES = words("navigation banner contentinfo complementary search menu menubar")
# Classes and ids that generators of sites and manuals give to what surrounds the content.
_AROUND_NAMES = words(
    "nav navbar navigation navheader navfooter sidebar sphinxsidebar related breadcrumb breadcrumbs footer "
    "site-header site-footer page-header page-footer menu skip-link cookie-banner cookie-consent"
)
_ANCHORS = words(
    "headerlink permalink anchor anchorjs-link header-anchor heading-anchor footnote-back footnote-backref "
    "reversefootnote"
)
_TELLING = words("class id role style hidden aria-hidden")  # attributes that may say that it is skipped
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

_MATTERS = words("role style hidden aria-hidden") | _AROUND_NAMES | _ANCHORS
_S = r"[ \t\n\r\f]"
_PLAIN = re.compile(  # tags; all else might be read in another way than by a look at its words
    rf"(?:[a-zA-Z][a-zA-Z0-9:-]*+(?:{_S}++[a-zA-Z][\w:.-]*+(?:{_S}*+={_S}*+"
    rf"(?:\"[^\"&]*+\"|'[^'&]*+'|[^ \t\n\r\f\"'=`&/]++))?+)*+{_S}*+/?<)*+",
    re.ASCII,
)
_NAME = re.compile(r"[^ \t\n\r\f/]+")
_BETWEEN = str.maketrans("\"'=</", "     ")


def told(tags: Mapping[str, str], known: frozenset[str]) -> frozenset[str]:
    """Names of elements, beside those that are ``known``, of which one may have attributes that matter.

    ``tags``: as ``tags.check`` gives them.
    """
    found = defaultdict[str, list[str]](list)
    for tag, name in tags.items():
        if len(tag) > len(name) and name not in known and tag[0] != "/":
            found[name].append(tag)
    return frozenset(
        element for said in found.values() if _matters("<".join((*said, ""))) for element in _elements(said)
    )


def _elements(tags: Iterable[str]) -> Iterator[str]:
    """Their names as the tree has them, in which more characters are allowed."""
    return (_NAME.findall(tag)[0].lower() for tag in tags)


def _matters(tags: str) -> bool:
    """``tags``: each followed by a ``<``."""
    if not _PLAIN.fullmatch(tags):
        return True
    return not _MATTERS.isdisjoint(tags.lower().translate(_BETWEEN).split()) or bool(LANGUAGE.search(tags))


def is_skipped(tag: str, attributes: Mapping[str, str | None], *, main: bool) -> bool:
    """Of an element that is not skipped whatever it says. ``main``: what surrounds the content, too."""
    if not attributes or _TELLING.isdisjoint(attributes):
        return main and tag in AROUND_TAGS
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if "style" in attributes and _HIDDEN.search(attributes["style"] or ""):
        return True
    if tag == "a" and is_named(attributes, _ANCHORS):
        return True
    if not main or tag in ("html", "body", "main"):
        return False
    around = tag in AROUND_TAGS or attributes.get("role") in _AROUND_ROLES
    return around or is_named(attributes, _AROUND_NAMES)
