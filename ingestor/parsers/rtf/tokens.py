"""The tokens of Rich Text Format: control words, groups, and bytes in some character set. Pure."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,9})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>.)"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
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


def tokens(source: str) -> Iterator[re.Match[str]]:
    r"""All but the bytes that follow a \bin."""
    at = 0
    while at < len(source):
        for token in _TOKEN.finditer(source, at):
            yield token
            at = token.end()
            if token.lastgroup == "number" and token["word"] == "bin":
                at += max(int(token["number"]), 0)
                break


def said(token: re.Match[str]) -> bytes:
    """The bytes that it adds to the text, in the font's character set."""
    if token["hex"]:
        return bytes([int(token["hex"], 16)])
    return (token["text"] or "").encode("latin-1", "replace")
