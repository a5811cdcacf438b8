"""Manual pages in troff, with the macros of man(7) and mdoc(7): sections, paragraphs, definitions, code."""

import re
from collections.abc import Sequence

from ingestor.model import Blob, Document
from ingestor.parsers.html.tags import words
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.registry import Options, Plugin

_NAMED = {
    "aq": "'", "bu": "•", "em": "—", "en": "–", "hy": "-", "lq": "“", "rq": "”", "oq": "‘",
    "cq": "’", "dq": '"', "co": "©", "rg": "®", "tm": "™", "de": "°", "mu": "×", "+-": "±",
    "->": "→", "<-": "←", "<=": "≤", ">=": "≥", "!=": "≠", "ti": "~", "ha": "^", "ga": "`",
    "rs": "\\", "sc": "§", "Eu": "€", "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü", ":A": "Ä",
    ":O": "Ö", ":U": "Ü", "'e": "é", "`e": "è", "'a": "á", "`a": "à", "^e": "ê", ",c": "ç",
    "~n": "ñ", "oa": "å", "/o": "ø", "ae": "æ",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:\((..)|\[([^\]\n]{1,40})\]|[fFmMgkn](?:\(..|\[[^\]\n]{0,40}\]|[+-]?.)|s[+-]?(?:\d{1,2}|\(\d\d|\[\d{1,9}\])"
    r"|\*(?:\((..)|\[([^\]\n]{1,40})\]|(.))|[hvwzXobBlLDNSH]'[^'\n]*'|(.))"
)
_SIGNS = {
    "-": "-",
    "e": "\\",
    "E": "\\",
    "\\": "\\",
    "0": " ",
    "~": " ",
    " ": " ",
    "t": "\t",
    "'": "'",
    "`": "`",
}
_SILENT = (None, *"&|^%:/,)acdrtpu{}")
_STRINGS = {"R": "®", "Tm": "™", "lq": "“", "rq": "”", 'L"': "“", 'R"': "”", "(L": "“", "(R": "”"}
_FONTS = words("B I BR RB BI IB IR RI SM SB R")
_CODE_BEGINS, _CODE_ENDS = words("nf EX Bd DS"), words("fi EE Ed DE")
# Sentences that mdoc has for what functions and programs return.
_RETURNS = {
    "Rv": "The {} {} the value 0 if successful; otherwise the value -1 is returned and the global variable"
    " errno is set to indicate the error.",
    "Ex": "The {} {} 0 on success, and >0 if an error occurs.",
}
_RETURNING = {"Rv": ("function returns", "functions return"), "Ex": ("utility exits", "utilities exit")}
_ADDRESSES = ("UR", "URL", "MT")
_BREAKS = words("PP P LP Pp RE RS br sp Sp Vb Ve ti in HP ad na TQ El")
_MDOC = words(
    "Nm Fl Ar Op Cm Ic Pa Xr Li Em Sy Va Vt Ev Er Dq Sq Qq Pq Bq Aq Ql Fn Fa Ft In Fd Nd Tn Ux Bx Nx "
    "Fx Ox At No "
    "Ns Oo Oc Lk Mt Rs Re An St Dv Cd Ad Brq Sx Xo Xc Sm Ms Do Dc So Sc Qo Qc Po Pc Bo Bc Ao Ac"
)
_QUOTES = {
    "Op": "[]",
    "Dq": "“”",
    "Sq": "‘’",
    "Qq": '""',
    "Pq": "()",
    "Bq": "[]",
    "Aq": "<>",
    "Ql": "‘’",
    "Brq": "{}",
}


class ManParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        page = _Page()
        for line in decode(blob.data).replace("\r\n", "\n").split("\n"):
            page.line(line)
        page.end()
        return Document(
            text=page.composer.text,
            blocks=tuple(page.composer.blocks),
            content_type="text/troff",
            title=page.title or None,
        )


class _Page:
    def __init__(self) -> None:
        self.composer = Composer()
        self.title = ""
        self._name = ""  # of the program, which mdoc says once
        self._kind, self._lines = "paragraph", list[str]()
        self._term: list[str] | None = None  # a definition's, while it is awaited
        self._table: list[str] | None = None  # lines of a table that is open
        self._skips = ""  # what ends a macro's definition, which is left out

    def line(self, line: str) -> None:
        if self._skips:
            self._skips = "" if line.startswith(self._skips) else self._skips
        elif self._table is not None and not line.startswith(".TE"):
            self._table.append(line)
        elif line.startswith((".", "'")) and line[1:].strip()[:1] not in ('"', "\\", ""):
            parts = line[1:].strip().split(None, 1)
            self._macro(parts[0], parts[1] if len(parts) > 1 else "")
        elif not line.startswith((".", "'")):
            self._text(shown(line))

    def end(self) -> None:
        self._end_block()

    def _macro(self, name: str, rest: str) -> None:
        if name in ("de", "ig"):
            self._skips = ".."
        elif name in ("TS", "TE"):
            self._add_table(self._table or [])
            self._table = [] if name == "TS" else None
        elif name in ("SH", "Sh", "SS", "Ss"):
            self._heading(" ".join(_words(rest)), 1 if name in ("SH", "Sh") else 2)
        elif name in ("TH", "Dt"):
            self.title = self.title or "".join(_words(rest)[:1]) + _section(_words(rest))
        elif name in ("TP", "IP", "It"):
            self._define(name, _words(rest))
        elif name in _CODE_BEGINS or name in _CODE_ENDS:
            self._end_block()
            self._kind = "code" if name in _CODE_BEGINS else "paragraph"
        elif name in _BREAKS:
            self._text("") if self._kind == "code" else self._end_block()
        else:
            self._say(name, rest)

    def _say(self, name: str, rest: str) -> None:
        """A macro that prints its words."""
        if name in _RETURNS:
            self._text(_returned(name, [word for word in _words(rest) if word != "-std"] or [self._name]))
        elif name == "An" and rest.startswith("-"):  # -split, -nosplit: how authors are set
            return
        elif name in _FONTS:
            spaced = len(name) == 1 or name in ("SM", "SB")
            self._text((" " if spaced else "").join(_words(rest)))
        elif name in _MDOC or name in _ADDRESSES:
            self._text(self._said([name, *_words(rest)] if name in _MDOC else _words(rest)))

    def _heading(self, text: str, level: int) -> None:
        self._end_block()
        self._kind = "paragraph"
        if text:
            self.composer.heading(text, level)

    def _add_table(self, lines: list[str]) -> None:
        """[tbl(1)] Options end with a semicolon, the format of the columns with a full stop."""
        self._end_block()
        options = lines[0] if lines and lines[0].rstrip().endswith(";") else ""
        given = re.search(r"tab *\((.)\)", options)
        format_ends = next((at for at, line in enumerate(lines, 1) if line.rstrip().endswith(".")), 0)
        rows = (
            line
            for line in lines[format_ends:]
            if not line.startswith(".") and line.strip() not in ("_", "=")
        )
        cells = (
            [cell.replace("T{", "").replace("T}", "") for cell in row.split(given[1] if given else "\t")]
            for row in rows
        )
        self.composer.table([[shown(cell) for cell in row] for row in cells])

    def _define(self, name: str, given: Sequence[str]) -> None:
        """``TP``: the next line is the term; ``IP`` and ``It`` say it themselves."""
        self._end_block()
        self._kind = "paragraph"
        if name == "TP":
            self._term = []
        elif given:
            term = self._said(given) if name == "It" else given[0]
            if term in ("•", "-", "*", "o"):
                self._lines = ["-"]
            else:
                self.composer.add("definition", term)

    def _said(self, given: Sequence[str]) -> str:
        """A line of mdoc: macros and their words in turn."""
        out: list[str] = []
        closing = ""
        for word in given:
            if word == "Nm" and word is given[-1]:
                out.append(self._name)
            elif word == "Fl":
                out.append("-\0")
            elif word in ("Ns",):
                out.append("\0")
            elif word in _QUOTES:
                out.append(f"{_QUOTES[word][0]}\0")
                closing = _QUOTES[word][1] + closing
            elif word not in _MDOC:
                out.append(f"\0{word}" if word in (".", ",", ";", ":", ")") else word)
        text = " ".join(out)
        if given[:1] == ["Nm"] and len(given) > 1 and not self._name:
            self._name = given[1]
        return re.sub(" ?\0 ?", "", text) + closing

    def _text(self, text: str) -> None:
        if self._term is not None:
            self.composer.add("definition", text)
            self._term = None
        elif self._kind == "code" or text.strip():
            self._lines.append(text)
        else:
            self._end_block()

    def _end_block(self) -> None:
        lines, self._lines = self._lines, []
        joined = "\n".join(lines) if self._kind == "code" else " ".join(line.strip() for line in lines)
        kind = "list" if self._kind == "paragraph" and joined.startswith("- ") else self._kind
        self.composer.add(kind, joined)


def shown(line: str) -> str:
    """A line without escapes."""
    return _ESCAPE.sub(_escaped, re.sub(r'(?<!\\)\\["#].*', "", line))


def _escaped(found: re.Match[str]) -> str:
    named = found[1] or found[2]
    if named:
        point = re.fullmatch(r"u([0-9A-F]{4,6})", named)
        return chr(int(point[1], 16)) if point and int(point[1], 16) < 0xD800 else _NAMED.get(named, "")
    string = found[3] or found[4] or found[5]
    if string:
        return _STRINGS.get(string, "")
    return "" if found[6] in _SILENT else _SIGNS.get(found[6], found[6])


def _returned(name: str, whose: Sequence[str]) -> str:
    one, several = _RETURNING[name]
    named = [f"{word}()" for word in whose] if name == "Rv" else whose
    said = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return _RETURNS[name].format(said, one if len(named) == 1 else several)


def _words(rest: str) -> list[str]:
    """Arguments of a macro: quotes hold words together, and two of them stand for one."""
    found = re.findall(r'"((?:[^"]|"")*)"?|(\S(?:\\ |\S)*)', rest)
    return [shown(plain if plain else quoted.replace('""', '"')) for quoted, plain in found]


def _section(given: Sequence[str]) -> str:
    return f"({given[1]})" if len(given) > 1 else ""


PLUGIN = Plugin(kind="man", version=2, options=Options, build=ManParser)
