r"""LaTeX: sectioning commands and environments become blocks; the document's text is the source.

Environments are paired in one pass before the lines are read, so a missing ``\end`` costs no further search.
An environment of prose (``document``, ``abstract``, a theorem) is not a block itself: its content becomes
blocks.
"""

import re
from unicodedata import normalize

from ingestor.model import Blob, Document
from ingestor.parsers.markup.lines import FoundBlock, Lines, blocks, lines_of, markup_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin

_MARKS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "k": "\u0328", "r": "\u030a", "d": "\u0323",
    "b": "\u0331", "t": "\u0361",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "l": "ł",
    "L": "Ł", "i": "ı", "j": "ȷ", "dh": "ð", "DH": "Ð", "th": "þ", "TH": "Þ", "dj": "đ", "DJ": "Đ", "ng": "ŋ",
    "NG": "Ŋ", "S": "§", "P": "¶", "copyright": "©", "pounds": "£", "euro": "€", "dots": "…", "ldots": "…",
    "textendash": "–", "textemdash": "—", "textquoteright": "’", "textquoteleft": "‘",
}  # fmt: skip
_DOTLESS = {"\\i": "i", "\\j": "j"}  # an accent takes the place of the dot
_ACCENT = re.compile(
    r"\\(?:([\"'`^~=.])[ ]?|([uvHckrdbt])(?:[ ]+|(?=[{\\])))"
    r"(?:\{(\\[ij]|[^\W\d_])\}|(\\[ij])(?![A-Za-z])[ ]?|([^\W\d_]))"
)
_LETTER = re.compile(rf"\\({'|'.join(sorted(_LETTERS, key=len, reverse=True))})(?![A-Za-z])(?:\{{\}}|[ ]+)?")
_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_SECTION = re.compile(rf"\s*\\({'|'.join(_LEVELS)})\*?\s*(?:\[[^\]]*\]\s*)?(?=\{{)")
_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([^{}]{1,40})\}")
_ABOUT = re.compile(r"\\(title|author|date)\s*(?:\[[^\]]{0,1000}\]\s*)?(?=\{)")
_CLASS = re.compile(r"\s*\\document(?:class|style)\b")
_KINDS = {
    **dict.fromkeys(
        ("verbatim", "Verbatim", "lstlisting", "minted", "alltt", "BVerbatim", "comment"), "code"
    ),
    **dict.fromkeys(("itemize", "enumerate", "description", "compactitem", "thebibliography"), "list"),
    **dict.fromkeys(
        ("table", "tabular", "tabularx", "longtable", "tabulary", "tabu", "supertabular"), "table"
    ),
    **dict.fromkeys(("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math"), "math"),
    **dict.fromkeys(("figure", "tikzpicture", "picture", "wrapfigure"), "figure"),
    **dict.fromkeys(("quote", "quotation", "verse"), "quote"),
}
_LITERAL = frozenset(name for name, kind in _KINDS.items() if kind == "code")
_LANGUAGE = re.compile(
    r"\\begin\{minted\}(?:\[[^\]]*\])?\{(\w+)|\\begin\{lstlisting\}\[.*?language=(?:\{?\[\w+\])?(\w+)"
)
_COMMENTED = re.compile(r"(?<!\\)%.*")
_LABEL = re.compile(r"[ \t]*\\label[ \t]*\{[^{}\r\n]{0,200}\}")
_ALONE = re.compile(  # commands that name or prepare what follows
    r"\s*(?:\\(?:label|index|hypertarget|addcontentsline|markboth|markright|pdfbookmark|phantomsection|clearpage"
    r"|cleardoublepage|newpage|pagebreak)(?![a-zA-Z])\*?(?:\[[^\[\]]{0,200}\]|\{[^{}]{0,200}\}){0,4}%?\s*)+\{?%?"
)
_ASIDE = re.compile(r"\\(?:thanks|footnote|inst|label|index)\s*\{[^{}]*\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?\s*(?:\[[^\]]*\])?")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_LINE_END = re.compile(r"[\r\n]")
_LONGEST = 1000  # characters of an argument that are read


def parse(blob: Blob) -> Document:
    """Read LaTeX as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    lines = lines_of(text)
    return markup_document(text, blocks(lines, _Rules(lines)), "text/x-tex", _about(text))


class _Rules:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._ends = _pairs(lines)

    def __call__(self, at: int) -> FoundBlock | None:
        lines, row = self._lines, self._lines.rows[at]
        if section := _SECTION.match(row):
            return self._section(at, section)
        if row.lstrip().startswith("%"):
            return FoundBlock("comment", lines.while_(at, lambda line: line.lstrip().startswith("%")))
        begun = _ENVIRONMENT.match(row.lstrip())
        if begun and begun[1] == "begin" and at in self._ends:
            kind = _KINDS.get(begun[2].rstrip("*"))
            named = _LANGUAGE.search(row)
            language = (named[1] or named[2]).lower() if named else None
            return FoundBlock(kind, self._ends[at] + 1, language=language) if kind else None
        if self._alone(at):
            return FoundBlock("label", lines.while_(at, lambda line: bool(_ALONE.fullmatch(line))))
        if _CLASS.match(row):
            preamble = lines.while_(
                at,
                lambda line: not line.lstrip().startswith("\\begin{document}") and not _SECTION.match(line),
            )
            return FoundBlock("front_matter", preamble)
        if row.lstrip().startswith("\\["):
            closed = lines.while_(at, lambda line: bool(line) and "\\]" not in line)
            return FoundBlock("math", min(closed + 1, len(lines.rows)))
        return None

    def _alone(self, at: int) -> bool:
        """Return whether a line outside a paragraph holds only commands that name or prepare what follows."""
        above = self._lines.row(at - 1)
        opens = not above or bool(_SECTION.match(above))
        return opens and bool(_ALONE.fullmatch(self._lines.rows[at]))

    def _section(self, at: int, section: re.Match[str]) -> FoundBlock:
        begin = self._lines.starts[at] + section.end()
        title, end = argument(self._lines.text, begin)
        level, lines = _LEVELS.index(section[1]) + 1, self._lines
        if not end:
            return FoundBlock("heading", at + 1, level=level, title=plain(title))
        label = _LABEL.match(lines.text, end + 1)
        stop, last = label.end() if label else end + 1, lines.line(end) + 1
        run_in = lines.text[stop : lines.starts[last]].strip()  # text on the line of the heading
        return FoundBlock("heading", last, level, plain(title), stop=stop if run_in else None)


def argument(text: str, at: int) -> tuple[str, int]:
    """Return the text in the braces that open at offset ``at``, and the offset of the closing brace.

    Return the rest of the line and 0 if the closing brace is missing or too far away.
    """
    depth = 0
    for brace in _BRACE.finditer(text, at, at + _LONGEST):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0 and brace[0] == "}":
            return text[at + 1 : brace.start()], brace.start()
    return _LINE_END.split(text[at + 1 : at + _LONGEST], maxsplit=1)[0], 0


def plain(markup: str) -> str:
    """Return a title as plain text: accents are decoded, commands and footnotes are removed."""
    text = decode_accents(_COMMENTED.sub("", markup).replace("\\\\", " ")).replace("~", " ")
    text = _COMMAND.sub("", _ASIDE.sub("", text).replace("\\and", ", "))
    return " ".join(re.sub(r"\\(?=\W)|[{}]", "", text).split()).replace(" ,", ",")


def _about(text: str) -> dict[str, str]:
    """Return the document's title, author and date, each from the first command that states it."""
    about: dict[str, str] = {}
    for command in _ABOUT.finditer(text):
        about.setdefault(command[1], plain(argument(text, command.end())[0]))
    return about


def _pairs(lines: Lines) -> dict[int, int]:
    r"""Map the line of each ``\begin`` to the line of the matching ``\end``.

    If several environments begin on one line, the end of the longest counts.
    """
    ends: dict[int, int] = {}
    open_: list[tuple[str, int]] = []
    counts: dict[str, int] = {}
    for at, row in enumerate(lines.rows):
        for command in _ENVIRONMENT.finditer(row):
            name = command[2]
            if open_ and open_[-1][0] in _LITERAL and (command[1] == "begin" or name != open_[-1][0]):
                continue
            if command[1] == "begin":
                open_.append((name, at))
                counts[name] = counts.get(name, 0) + 1
            elif counts.get(name):
                while open_:
                    opened, begin = open_.pop()
                    counts[opened] -= 1
                    if opened == name:
                        ends[begin] = max(at, ends.get(begin, at))
                        break
    return ends


# --- accents -----------------------------------------------------------------------------------------------


def decode_accents(markup: str) -> str:
    """Replace the commands for accents and special letters by the characters that they print."""
    accented = _ACCENT.sub(_accent, markup)
    return _LETTER.sub(lambda match: _LETTERS[match[1]], accented)


def _accent(match: re.Match[str]) -> str:
    base = match[3] or match[4] or match[5]
    return normalize("NFC", _DOTLESS.get(base, base) + _MARKS[match[1] or match[2]])


PLUGIN = parser_plugin("latex", 3, parse, isolated="large")
