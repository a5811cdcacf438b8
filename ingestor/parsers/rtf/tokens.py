"""The tokens of Rich Text Format: control words, groups, and bytes in some character set. Pure."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,9})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>.)"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
_BORDER = re.compile(r"[}\n]")  # a token ends with each of them
_PIECE = 1_000_000  # characters whose tokens are held at once
Token = tuple[str, str, str, str, str, str]
CHARACTERS = {
    "tab": "\t", "line": "\n", "softline": "\n", "bullet": "•", "endash": "–", "emdash": "—",
    "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "nestcell": " ", "nestrow": " ",
    "enspace": " ", "emspace": " ", "qmspace": " ",
}  # fmt: skip
SIGNS = {"~": "\xa0", "_": "-", "\\": "\\", "{": "{", "}": "}", "\t": "\t"}
CHARACTER_SETS = {  # of a font; those not here are the document's own
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip


def tokens(source: str) -> Iterator[Token]:
    r"""Word, its number, hexadecimal digits, sign, brace, text: those of a token that are not empty.

    All but the bytes that follow a \bin.
    """
    return _around_binaries(source) if r"\bin" in source else _all(source)


def _all(source: str) -> Iterator[Token]:
    """Piece by piece, which takes half the time of token by token."""
    at = 0
    while at < len(source):
        border = _BORDER.search(source, at + _PIECE)
        end = border.end() if border else len(source)
        yield from _TOKEN.findall(source, at, end)
        at = end


def _around_binaries(source: str) -> Iterator[Token]:
    at = 0
    while at < len(source):
        for token in _TOKEN.finditer(source, at):
            word, number, digits, sign, brace, text = token.groups("")
            yield word, number, digits, sign, brace, text
            at = token.end()
            if word == "bin" and number:
                at += max(int(number), 0)
                break
