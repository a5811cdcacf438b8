"""Headings that a TeX source names, by the commands of LaTeX's classes. Pure.

A source that makes commands of its own of them, or takes in a file that is not there, is unfit to tell. A
title with a command that is not known here is left open.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ingestor.parsers.html.tags import words
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
    """The source with the files that it takes in, without comments and what is set as it stands."""
    said = _LITERAL.sub(" ", _COMMENT.sub(r"\1", files[name]))

    def taken(found: re.Match[str]) -> str:
        other = ((found[1] or "") + found[2].strip()).removeprefix("./")
        path = next((path for path in (other, f"{other}.tex", f"{other}.ltx") if path in files), None)
        lost = "" if other.endswith(_NO_TEXT) else _MISSING
        return whole(path, files, deep - 1) if path and deep else lost

    return _INPUT.sub(taken, said)


def unfit(said: str) -> bool:
    return (
        _MISSING in said.partition(r"\begin{document}")[2]
        or "{beamer}" in said
        or bool(_OWN.search(said))
        or r"\begin{document}" not in said
    )


def headings(said: str) -> Iterator[tuple[int, str]]:
    """(level, title) in the order of the source."""
    body = said.partition(r"\begin{document}")[2]
    body = body[: body.rfind(r"\end{document}")]
    own = _macros(said)
    for found in _HEADING.finditer(body):
        at = found.end()
        if body[at] == "[":
            at = _past(body, at, "[]")
        if body[at : at + 1] == "{":
            yield _LEVELS[found[1]], plain(body[at + 1 : _past(body, at, "{}") - 1], own)


def _macros(said: str) -> dict[str, str]:
    """What the document's own commands set: words, or in some type what they are given ("")."""
    own: dict[str, str] = {}
    for found in _MACRO.finditer(said):
        name, set_as = found[1] or found[3], plain(found[5].replace("#1", ""), own)
        takes = found[2] == "[1]" or bool(found[4])
        if is_told(set_as) and (not found[2] or takes) and not (takes and re.search(r"\w", set_as)):
            own[name] = set_as
    return own


def named(said: str) -> Iterator[str]:
    """Titles that a class or a document says it sets by itself, and those of its theorems."""
    for found in _NAMED.finditer(said):
        yield plain(found[1] or found[2])
    for found in _THEOREM.finditer(said):
        yield plain(found[1]) + OPEN


def classes(said: str) -> list[str]:
    """The classes that a document or a class loads."""
    return _CLASS.findall(said)


def title_of(said: str) -> str:
    found = re.search(r"\\title\s*(\[[^\]]*\])?\s*(?=\{)", said)
    return plain(said[found.end() + 1 : _past(said, found.end(), "{}") - 1], _macros(said)) if found else ""


def is_told(title: str) -> bool:
    """Whether nothing in it was lost: no command of the document's own."""
    return OPEN not in title


def _past(said: str, at: int, marks: str) -> int:
    """Past the group that begins there."""
    depth, opened = 0, at
    while at < len(said):
        if said[at] == "\\":
            at += 1
        elif said[at] == marks[0] or (said[at] == "{" and depth):
            depth += 1
        elif said[at] == marks[1] or (said[at] == "}" and depth):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return opened + 1


def plain(said: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """A title without the commands in it. ``own``: what the document's own set."""
    while found := _SILENT.search(said):
        end = found.end()
        while said[end : end + 1] in ("[", "{") and said[end:]:
            end = _past(said, end, "[]" if said[end] == "[" else "{}")
            if found[0].startswith(r"\texorpdfstring"):  # its first argument is what is set
                said = (
                    said[: found.start()] + said[found.end() + 1 : end - 1] + said[_past(said, end, "{}") :]
                )
                break
        else:
            said = said[: found.start()] + said[end:]
    said = decode_accents(said)
    said = re.sub(r"\\([A-Za-z]+)\*?\s*", lambda found: _meaning(found[1], own), said)
    said = re.sub(r"\\\\(\[[^\]]*\])?|~|\\[,; !]", " ", said)
    return " ".join(re.sub(r"[{}$^_]|\\(?=[&%#_$ ])|\\", "", said).split())


def _meaning(command: str, own: Mapping[str, str]) -> str:
    if command in own:
        return own[command] or " "
    return _SAID.get(command, " " if command in _PLAIN else OPEN)
