"""Escapes text of unknown origin, so that it cannot control a terminal or imitate a log line. Pure.

Invisible characters are escaped, too. Marks of writing direction can make one name look like another. Tags
and variation selectors can hide words that only a language model reads.
"""

import json
import re

# Hyphens, breaks, joiners and selectors that scripts and emoji need; several in a row may hide a message.
_ONCE = r"[\xad\u180b-\u180f\u200b-\u200d\u2060\ufe00-\ufe0f]"
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u200e\u200f"
    r"\u2028-\u202e\u2061-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    rf"|(?<={_ONCE}){_ONCE}"
)
_SHORT = {r"\n": "\n", r"\t": "\t"}
_ESCAPED = re.compile(r"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u(?!d[89a-f])[0-9a-f]{4}|n|t)")


def escape_invisible(text: str) -> str:
    """Escape control and invisible characters as JSON does. Tabs and line ends are kept."""
    return _CONTROL.sub(lambda match: _as_json(match[0]), text)


def line(text: str) -> str:
    """Escape a text, line ends included, so that it takes one line."""
    return escape_invisible(text).replace("\n", "\\n").replace("\t", "\\t")


def raw(text: str) -> str:
    """Undo ``line`` as far as possible. A backslash of the original text can look like an escape."""
    return _ESCAPED.sub(lambda match: _SHORT.get(match[0]) or json.loads(f'"{match[0]}"'), text)


def _as_json(character: str) -> str:
    """Return the character's JSON escape by number.

    JSON's short forms, such as a backslash and n, are not used.
    """
    return f"\\u{ord(character):04x}" if character < "\U00010000" else json.dumps(character)[1:-1]
