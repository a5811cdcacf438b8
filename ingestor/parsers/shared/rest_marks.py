"""Whether a text is written as reStructuredText, although its name does not say so. Pure.

Such a text has a title, which is a line with a rule at least as long under it. It also has markup that other
texts hardly have: a directive, a role, a literal, or a block that two colons announce. Of 3,806 texts of
Debian packages and of Python's library 35 have both, and all of these are reStructuredText.
"""

import re

_RULE = re.compile(rb"([=\-~^*\"#+'`.:_])\1{3,}")
_ANY_RULE = re.compile(rb"([!-/:-@\[-`{-~])\1*")
_MARKUP = re.compile(
    rb"^\.\.[ ](?:[a-z:+-]+::|_[^:\n]+:|\[\w|\|)"  # a directive, a target, a footnote or a substitution
    rb"|:[a-z][a-z0-9:+-]{0,50}:`[^`\n]"  # a role
    rb"|(?<![`\w])``(?=\S)[^`\n]*\S``(?![`\w])"  # a literal
    rb"|::[ \t]*\n[ \t]*\n[ \t]+\S",  # a block that is announced
    re.M,
)
# Both together suffice without a title: a directive or a target, and a line of underlines.
_DIRECTIVE = re.compile(rb"^\.\. (?:[a-z-]+::|_[\w -]+:)", re.M)
_LINE = re.compile(rb"^([=~^*-])\1{3,}\s*$", re.M)
RULES = tuple(pattern.pattern for pattern in (_RULE, _MARKUP, _DIRECTIVE, _LINE))


def looks_restructured(head: bytes) -> bool:
    """Return whether a text looks like reStructuredText.

    ``head``: the first bytes of the text, in an encoding that extends ASCII.
    """
    if _DIRECTIVE.search(head) and _LINE.search(head):
        return True
    text = head.replace(b"\r\n", b"\n")
    return bool(_MARKUP.search(text)) and _has_title(text.split(b"\n"))


def _has_title(lines: list[bytes]) -> bool:
    rows = [b"", *(line.rstrip() for line in lines)]
    return any(map(_is_title, rows, rows[1:], rows[2:]))


def _is_title(above: bytes, title: bytes, below: bytes) -> bool:
    """Whether a rule is under a line, as long as that at least, and nothing but its like above it."""
    if not title or _ANY_RULE.fullmatch(title) or not _RULE.fullmatch(below) or above not in (b"", below):
        return False
    indented = title[:1].isspace() and above != below
    return not indented and len(below) >= len(title.strip().decode("utf-8", "replace"))
