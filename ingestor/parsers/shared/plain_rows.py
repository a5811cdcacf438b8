"""Rows of sheets that are written in one plain form, read by patterns instead of by the XML parser. Pure.

Nearly all rows of large sheets are: numbers and short texts, without comments or unusual elements. The XML
parser is given a placeholder for each run of such rows, and all other rows as they are, so that whatever is
not of the plain form is read as ever. What is wrong within the tags of a plain row need not be found.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

MARK = "plain-rows"  # the attribute of placeholders: a number
_RUN = 65_536  # bytes of rows that may become one placeholder
_PIECE = 32_768  # bytes that are handed out at once of what is not folded
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)""")
# Where these stand, what looks like a tag may be none, a prefix be another's, or a placeholder not be ours.
_MARKS = ("<!", "<?", MARK)
_ENDS = (*_MARKS, "xmlns")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))  # this one last
_CHARACTERS = r"[^<>&\x00-\x1f\ufffe\uffff]*+"
TEXT = rf"{_CHARACTERS}(?:&(?:amp|lt|gt|quot|apos);{_CHARACTERS})*+"  # a pattern of plain text
SPACE = r"[ \t\r\n]*+"

T = TypeVar("T")


class PlainRows(Generic[T]):
    """``tag``: that of rows, as it is nearly always written; ``namespaces``: the declarations that it needs,
    each the only one of its prefix in the part. ``read`` gives what a row holds, from its text up to its end
    tag (which it does not have), or None if it is not of the plain form: if it holds control characters,
    entities but the five that XML has, or tags that it does not know. It must be pure: a row may be read in
    vain.
    """

    def __init__(self, tag: str, namespaces: Sequence[str], read: Callable[[str], T | None]) -> None:
        self._tag, self._namespaces, self._read = tag, namespaces, read
        self._runs: dict[str, list[T]] = {}
        self._count = 0

    def fold(self, data: bytes) -> Iterator[bytes]:
        """The XML of a part, in pieces, with placeholders."""
        end = f"</{self._tag}>".encode()
        at, last = data.find(f"<{self._tag}".encode()), data.rfind(end)
        if not 0 <= at < last or not self._may_fold(data[:at]):
            yield from pieces(data)
            return
        yield from pieces(data[:at])
        while at < last:
            stop = data.rfind(end, at, at + _RUN)
            stop = (data.find(end, at) if stop < 0 else stop) + len(end)
            folded = self._folded(data[at:stop])
            if folded is None:
                break
            yield folded
            at = stop
        yield from pieces(data[at:])

    def of(self, attribute: str | None) -> list[T]:
        """The rows that a placeholder stands for, once; ``attribute``: its value of ``MARK``."""
        return self._runs.pop(attribute, []) if attribute else []

    def __iter__(self) -> Iterator[T]:
        """All that placeholders stand for which were not asked for yet."""
        return chain.from_iterable(self._runs.values())

    def _may_fold(self, start: bytes) -> bool:
        """Whether the part is written in UTF-8, with these namespaces; ``start``: up to its first row."""
        named, said = _ENCODING.match(start), start.decode("latin-1")
        return (
            (not named or named[1].lower() == b"utf-8")
            and not any(mark in said[2:] for mark in _MARKS)
            and all(
                said.count(f"{one.partition('=')[0]}=") == said.count(one) == 1 for one in self._namespaces
            )
        )

    def _folded(self, rows: bytes) -> bytes | None:
        """Replace plain rows by placeholders; return None if text from here on may only look like a tag."""
        try:
            texts = rows.decode().split(f"</{self._tag}>")
        except UnicodeDecodeError:
            return None  # the XML parser says what is wrong
        out: list[str] = []
        runs: list[list[T]] = [[]]  # the last one is open
        for text in texts[:-1]:
            row = self._read(text)
            if row is not None:
                runs[-1].append(row)
            elif any(mark in text for mark in _ENDS):
                return None
            else:
                out += [self._placeholder(runs), text, f"</{self._tag}>"]
        out.append(self._placeholder(runs))
        self._runs |= {str(at): run for at, run in enumerate(runs, self._count + 1)}
        self._count += len(runs)
        return "".join(out).encode()

    def _placeholder(self, runs: list[list[T]]) -> str:
        """Return the placeholder of the last run and open another run; "" if the last run has no rows."""
        if not runs[-1]:
            return ""
        runs.append([])
        return f'<{self._tag} {MARK}="{self._count + len(runs) - 1}"/>'


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def unescaped(text: str) -> str:
    """With the characters that the five entities of XML stand for."""
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return text
