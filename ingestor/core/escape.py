"""Makes foreign text safe to show: it cannot control a terminal or imitate a log line. Pure.

Marks of text direction are escaped, too: with them a name can look like another one.
"""

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT = {r"\n": "\n", r"\t": "\t"}
_ESCAPED = re.compile(r"\\(?:u((?!d[89a-f])[0-9a-f]{4})|n|t)")  # no surrogates


def spelt(text: str) -> str:
    """Text with control characters and marks of direction escaped as in JSON; tabs and line ends stay."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def line(text: str) -> str:
    """The same, on one line."""
    return spelt(text).replace("\n", "\\n").replace("\t", "\\t")


def raw(text: str) -> str:
    """The text that ``line`` may have made this of; backslashes of the text itself can look like escapes."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else _SHORT[match[0]], text)
