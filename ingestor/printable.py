"""Text from outside made safe to show: it can't steer a terminal, nor pass for a line of ours. Pure."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def spelt(text: str) -> str:
    """Control characters as JSON escapes them; tabs and line ends stay."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def line(text: str) -> str:
    """The same, on one line."""
    return spelt(text).replace("\n", "\\n").replace("\t", "\\t")
