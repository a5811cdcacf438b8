"""Reads the headings of a TeX source by the commands of LaTeX's classes. Pure.

A source that redefines these commands, or includes a missing file, is unfit. A title with an unknown command
is left open.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ingestor.parsers.html.page import words
from ingestor.parsers.markup.latex import decode_accents

_LEVELS = {
    "part": 1, "chapter": 1, "addchap": 1, "section": 2, "addsec": 2, "subsection": 3, "subsubsection": 4,
    "paragraph": 5, "subparagraph": 6,
}  # fmt: skip
_THEOREM = re.compile(r"\\(?:sp)?newtheorem\*?\s*\{\w+\*?\}\s*(?:\[\w+\])?\s*\{([^{}]+)\}")
_CLASS = re.compile(r"\\(?:documentclass|LoadClass)\s*(?:\[[^\]]*\])?\s*\{([\w-]+)\}")
OPEN = "\ufffd"  # in a title: a command that is not known
_NAMES = "|".join(_LEVELS)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%.*\n?[ \t]*")
_LITERAL = re.compile(
    r"\\begin\{(verbatim\*?|Verbatim|lstlisting|alltt|LTXexample|comment|minted|filecontents\*?|tcblisting)\}"
    r".*?\\end\{\1\}|\\verb\*?([^\w\s])[^\n]*?\2|\\iffalse\b.*?\\fi\b",
    re.S,
)
_INPUT = re.compile(
    r"\\(?:input|include|subfile|(?:sub)?(?:import|includefrom|inputfrom)\s*\{([^{}]*)\})\s*\{([^{}]+)\}"
)
_MISSING = "\0"
_NO_TEXT = (".sty", ".cls", ".cfg", ".def", ".bbl", ".pgf", ".tikz", ".clo", ".ldf")
_HEADING = re.compile(rf"\\({_NAMES})\b\s*\*?\s*(?=[\[{{])")
_OWN = re.compile(
    rf"\\(?:new|renew|provide)command\*?\s*\{{?\\\w+\}}?[^\n]*\\(?:{_NAMES})\*?\s*\{{|\\def\s*\\\w+#1[^\n]*\\(?:{_NAMES})\*?\s*\{{"
)
_SILENT = re.compile(
    r"\\(?:label|index|footnote|thanks|footnotemark|vspace|hspace|cite|protect|texorpdfstring)\*?\b"
)
# Commands of LaTeX, ltxdoc and csquotes that set their argument, or nothing.
_PLAIN = words(
    "texttt textbf textit emph textsf textsc textrm textsl textup textmd textnormal text bf it tt sf sc em "
    "rm bfseries itshape ttfamily sffamily scshape normalfont small footnotesize large Large centering "
    "raggedright newline linebreak par ensuremath mathrm mathbf mbox hbox quad qquad MakeUppercase "
    "uppercase lowercase MakeLowercase string xspace nobreakspace relax enquote og fg cs cmd meta marg oarg "
    "pkg cls env file url"
)
_SAID = {
    "LaTeX": "LaTeX",
    "latex": "LaTeX",
    "tex": "TeX",
    "LaTeXe": "LaTeX2ε",
    "TeX": "TeX",
    "BibTeX": "BibTeX",
    "ldots": "…",
    "dots": "…",
    "&": "&",
    "textbackslash": "\\",
}
_MACRO = re.compile(
    r"\\(?:(?:new|renew|provide)command\*?\s*\{?\\([A-Za-z]+)\}?(\[\d\])?|def\s*\\([A-Za-z]+)(#1)?)\s*"
    r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
)
# What sets a title by itself: \renewcommand{\contentsname}{…}, \chapter*{Glossary}.
_NAMED = re.compile(rf"\\\w*name\}}?\s*\{{([^{{}}]+)\}}|\\(?:{_NAMES})\*?\s*\{{([^{{}}#]+)\}}")


def whole(name: str, files: Mapping[str, str], deep: int = 5) -> str:
    """Return the source with its included files, without comments and verbatim text."""
    source = _LITERAL.sub(" ", _COMMENT.sub(r"\1", files[name]))

    def taken(match: re.Match[str]) -> str:
        other = ((match[1] or "") + match[2].strip()).removeprefix("./")
        path = next((path for path in (other, f"{other}.tex", f"{other}.ltx") if path in files), None)
        lost = "" if other.endswith(_NO_TEXT) else _MISSING
        return whole(path, files, deep - 1) if path and deep else lost

    return _INPUT.sub(taken, source)


def unfit(source: str) -> bool:
    return (
        _MISSING in source.partition(r"\begin{document}")[2]
        or "{beamer}" in source
        or bool(_OWN.search(source))
        or r"\begin{document}" not in source
    )


def headings(source: str) -> Iterator[tuple[int, str]]:
    """Yield (level, title) in the order of the source."""
    body = source.partition(r"\begin{document}")[2]
    body = body[: body.rfind(r"\end{document}")]
    own = _macros(source)
    for match in _HEADING.finditer(body):
        at = match.end()
        if body[at] == "[":
            at = _past(body, at, "[]")
        if body[at : at + 1] == "{":
            yield _LEVELS[match[1]], plain(body[at + 1 : _past(body, at, "{}") - 1], own)


def _macros(source: str) -> dict[str, str]:
    """Return the text of the document's own commands; "" for commands that set their argument."""
    own: dict[str, str] = {}
    for match in _MACRO.finditer(source):
        name, set_as = match[1] or match[3], plain(match[5].replace("#1", ""), own)
        takes = match[2] == "[1]" or bool(match[4])
        if is_told(set_as) and (not match[2] or takes) and not (takes and re.search(r"\w", set_as)):
            own[name] = set_as
    return own


def named(source: str) -> Iterator[str]:
    """Yield titles that a class or a document sets by itself, and names of its theorems."""
    for match in _NAMED.finditer(source):
        yield plain(match[1] or match[2])
    for match in _THEOREM.finditer(source):
        yield plain(match[1]) + OPEN


def classes(source: str) -> list[str]:
    """Return the classes that a document or a class loads."""
    return _CLASS.findall(source)


def title_of(source: str) -> str:
    match = re.search(r"\\title\s*(\[[^\]]*\])?\s*(?=\{)", source)
    return (
        plain(source[match.end() + 1 : _past(source, match.end(), "{}") - 1], _macros(source))
        if match
        else ""
    )


def is_told(title: str) -> bool:
    """Whether nothing in it was lost: no command of the document's own."""
    return OPEN not in title


def _past(source: str, at: int, marks: str) -> int:
    """Return the place after the group that begins there."""
    depth, opened = 0, at
    while at < len(source):
        if source[at] == "\\":
            at += 1
        elif source[at] == marks[0] or (source[at] == "{" and depth):
            depth += 1
        elif source[at] == marks[1] or (source[at] == "}" and depth):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return opened + 1


def plain(source: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a title without its commands. ``own``: text of the document's own commands."""
    while match := _SILENT.search(source):
        end = match.end()
        while source[end : end + 1] in ("[", "{") and source[end:]:
            end = _past(source, end, "[]" if source[end] == "[" else "{}")
            if match[0].startswith(r"\texorpdfstring"):  # its first argument is what is set
                source = (
                    source[: match.start()]
                    + source[match.end() + 1 : end - 1]
                    + source[_past(source, end, "{}") :]
                )
                break
        else:
            source = source[: match.start()] + source[end:]
    source = decode_accents(source)
    source = re.sub(r"\\([A-Za-z]+)\*?\s*", lambda match: _meaning(match[1], own), source)
    source = re.sub(r"\\\\(\[[^\]]*\])?|~|\\[,; !]", " ", source)
    return " ".join(re.sub(r"[{}$^_]|\\(?=[&%#_$ ])|\\", "", source).split())


def _meaning(command: str, own: Mapping[str, str]) -> str:
    if command in own:
        return own[command] or " "
    return _SAID.get(command, " " if command in _PLAIN else OPEN)
