"""TeX of the documents of _pieces.py, in styles of papers, books, manuals, contracts, minutes and letters."""
# ruff: noqa: E501

import random
from collections.abc import Iterator

from benchmarks._pieces import NOUNS, Piece, Source, headings_of, paragraph, pieces


def _section(kind: str, level: int, before: str, after: str, style: str) -> str:
    return rf"\renewcommand\{kind}{{\@startsection{{{kind}}}{{{level}}}{{\z@}}{{-{before}}}{{{after}}}{{{style}}}}}"


def _sections(*styles: str, before: str = "14pt plus 3pt", after: str = "5pt plus 1pt") -> str:
    kinds = ("section", "subsection", "subsubsection")
    said = "".join(
        _section(kind, level, before, after, style)
        for level, (kind, style) in enumerate(zip(kinds, styles, strict=False), 1)
    )
    return rf"\makeatletter{said}\makeatother"


_PARSKIP = r"\setlength\parindent{0pt}\setlength\parskip{6pt plus 1pt}"
_PLAIN = r"\setcounter{secnumdepth}{0}"
_IEEE = (
    r"\renewcommand\thesection{\Roman{section}}\renewcommand\thesubsection{\Alph{subsection}}"
    r"\makeatletter\renewcommand\@seccntformat[1]{\csname the#1\endcsname. }\makeatother"
)
_LEGAL = r"\makeatletter\renewcommand\@seccntformat[1]{\csname the#1\endcsname.\quad}\makeatother"
_RULES = (
    r"\usepackage{titlesec}\titleformat{\section}{\normalsize\sffamily\bfseries}{\thesection}{1em}{}[\titlerule]"
    r"\titleformat{\subsection}{\normalsize\sffamily}{\thesubsection}{1em}{}"
)
_CENTRED = (
    r"\usepackage{titlesec}\titleformat{\section}{\filcenter\normalsize\scshape}{\thesection.}{1em}{}"
    r"\titleformat{\subsection}{\filcenter\normalsize\itshape}{\thesubsection}{1em}{}"
)
_FRONT = (
    r"\renewcommand\maketitle{\begin{titlepage}\centering\vspace*{2cm}{\Large University of Porthaven\par}"
    r"\vspace{1cm}{\large Department of Rope and Sail\par}\vspace{3cm}{\Huge\bfseries\csname @title\endcsname\par}"
    r"\vspace{2cm}{\Large Ada Lovelace, M.Sc.\par}\vfill{\bfseries A dissertation submitted for the degree of\par}"
    r"{\large Doctor of Philosophy\par}\vspace{1cm}{\large Porthaven, March 2026\par}\end{titlepage}"
    r"\begin{titlepage}Supervisors:\par\bigskip{\large Prof.\ Charles Babbage\par}{\large Dr.\ Mary Somerville\par}"
    r"\end{titlepage}}\makeatletter\AtBeginDocument{\let\@title\@title}\makeatother"
)

# name, class, preamble, sections, depth, kinds, table of contents, held out
_TEX: list[tuple[str, str, str, int, int, str, bool, bool]] = [
    ("article", "[10pt]{article}", "", 5, 3, "lfts", False, False),
    ("twocolumn", "[10pt,twocolumn]{article}", "", 6, 2, "ftl", False, False),
    (
        "small-caps",
        "[11pt]{article}",
        _sections(r"\centering\scshape", r"\scshape"),
        5,
        2,
        "lfd",
        False,
        False,
    ),
    (
        "ieee",
        "[10pt,twocolumn]{article}",
        _IEEE
        + r"\usepackage{mathptmx}"
        + _sections(r"\centering\scshape", r"\itshape", before="9pt plus 3pt", after="4pt"),
        6,
        2,
        "ftl",
        False,
        False,
    ),
    (
        "bold-body-numbered",
        "[11pt]{article}",
        _sections(*[r"\normalsize\bfseries"] * 3),
        5,
        3,
        "lb",
        False,
        False,
    ),
    (
        "bold-body",
        "[12pt]{article}",
        _PLAIN + _sections(r"\normalsize\bfseries", r"\normalsize\itshape"),
        6,
        2,
        "lbd",
        False,
        False,
    ),
    ("report", "[11pt]{report}", "", 4, 3, "lftc", True, False),
    ("book-toc", "[10pt]{book}", "", 4, 3, "lc", True, False),
    ("koma", "{scrartcl}", "", 5, 3, "lftc", False, False),
    (
        "contract",
        "[11pt]{article}",
        _LEGAL + _PARSKIP + _sections(r"\normalsize\bfseries\MakeUppercase"),
        8,
        1,
        "l",
        False,
        False,
    ),
    ("maths", "[10pt]{article}", r"\newtheorem{theorem}{Theorem}", 5, 2, "fmfm", False, False),
    ("bitmap", "[10pt]{article}", r"\usepackage[T1]{fontenc}", 5, 2, "lft", False, False),
    (
        "minutes",
        "[10pt]{article}",
        _PLAIN + _PARSKIP + _sections(r"\normalsize\bfseries", before="8pt", after="1pt"),
        8,
        1,
        "lsb",
        False,
        False,
    ),
    (
        "manual",
        "[10pt]{article}",
        r"\usepackage{helvet}"
        + _sections(*[r"\sffamily\bfseries\large"] * 1, r"\sffamily\bfseries", r"\sffamily"),
        6,
        3,
        "cdtl",
        True,
        False,
    ),
    ("letter", "{letter}", "", 0, 0, "", False, False),
    ("exercises", "[11pt]{article}", _PARSKIP + _PLAIN, 3, 1, "mfbl", False, False),
    (
        "palatino-plain",
        "[11pt]{article}",
        r"\usepackage{mathpazo}" + _sections(r"\Large", r"\large", r"\itshape"),
        5,
        3,
        "lfd",
        False,
        False,
    ),
    # held out
    ("held-koma-report", "{scrreprt}", "", 4, 3, "lftd", True, True),
    ("held-amsart", "{amsart}", "", 6, 1, "fmlt", False, True),
    (
        "held-twocolumn-bold",
        "[10pt,twocolumn]{article}",
        _sections(r"\bfseries", r"\bfseries\itshape"),
        6,
        2,
        "flbt",
        False,
        True,
    ),
    ("held-memoir", "[11pt]{memoir}", r"\chapterstyle{section}", 4, 2, "lcb", True, True),
    (
        "held-caps-plain",
        "[12pt]{article}",
        _PLAIN + _sections(r"\normalsize\MakeUppercase", r"\normalsize\bfseries"),
        5,
        2,
        "ldb",
        False,
        True,
    ),
    ("held-letter", "{scrlttr2}", "", 0, 0, "", False, True),
    (
        "held-numbered-plain",
        "[11pt]{article}",
        r"\usepackage{mathptmx}" + _sections(*[r"\normalsize"] * 2),
        6,
        2,
        "ls",
        False,
        True,
    ),
    (
        "held-sans",
        "[10pt]{article}",
        r"\renewcommand\familydefault{\sfdefault}",
        5,
        3,
        "tcs",
        False,
        True,
    ),  # classes of journals, and packages that set headings in their own way
    ("ieee-conference", "[conference]{IEEEtran}", "", 6, 2, "ftl", False, False),
    ("acm", "[sigconf,nonacm]{acmart}", "", 6, 2, "fltc", False, False),
    ("elsevier", "[3p,twocolumn]{elsarticle}", "", 6, 3, "flt", False, False),
    ("revtex", "[aps,prb,twocolumn]{revtex4-2}", "", 6, 3, "ftf", False, False),
    (
        "classicthesis",
        "[11pt]{scrreprt}",
        r"\usepackage[beramono=false]{classicthesis}",
        4,
        3,
        "lfd",
        True,
        False,
    ),
    ("rules", "[10pt]{article}", _RULES, 6, 2, "lbt", False, False),
    ("thesis", "[12pt,titlepage]{report}", _FRONT, 4, 3, "ltf", True, False),
    ("held-ieee-journal", "[journal]{IEEEtran}", "", 6, 2, "fbtl", False, True),
    ("held-acm-small", "[acmsmall,nonacm]{acmart}", "", 6, 2, "fdtl", False, True),
    ("held-llncs", "{llncs}", "", 6, 2, "fltm", False, True),
    ("held-apa", "[doc]{apa7}", "", 6, 2, "lt", False, True),
    ("held-revtex", "[aps,pre]{revtex4-2}", "", 6, 3, "fl", False, True),
    (
        "held-classicthesis",
        "{scrartcl}",
        r"\usepackage[nochapters,beramono=false]{classicthesis}",
        5,
        3,
        "lbt",
        True,
        True,
    ),
    ("held-centred", "[11pt]{article}", _CENTRED, 6, 2, "ltf", False, True),
    ("held-thesis", "[12pt,titlepage]{book}", _FRONT, 4, 2, "lbf", True, True),
    ("held-tufte", "{tufte-handout}", "", 6, 2, "lf", False, True),
]


def _tex(said: str) -> str:
    return said.replace('"', "''")


def _tex_piece(piece: Piece, chapters: bool) -> str:
    shift = 0 if not chapters else 1
    names = ("chapter", "section", "subsection", "subsubsection")
    said = _tex(piece.text)
    match piece.kind:
        case "h1" | "h2" | "h3":
            return rf"\{names[int(piece.kind[1]) - shift]}{{{said}}}"
        case "list":
            items = "\n".join(rf"\item {_tex(item)}" for item in piece.more)
            return rf"\begin{{enumerate}}{items}\end{{enumerate}}"
        case "formula":
            return (
                r"\[\sum_{i=1}^{n}\left(\frac{a_i}{b_i}\right)^2\ge\int_0^\infty f(x)\,dx+\prod_{k}\sqrt{\frac{1}{k}}\]"
                r"\begin{equation}E=mc^2\qquad\mathrm{Var}(X)=\sigma^2\end{equation}"
            )
        case "table":
            return (
                r"\begin{table}[htb]\centering\begin{tabular}{lrr}\hline\textbf{Item} & \textbf{Weight} & "
                r"\textbf{Price}\\\hline Stone & 12 & 3\\Feather & 1 & 9\\Rope & 4 & 2\\\hline\end{tabular}"
                rf"\caption{{{said}}}\end{{table}}"
            )
        case "code":
            return "\\begin{verbatim}\n" + piece.text + "\n\\end{verbatim}"
        case "term":
            return rf"\begin{{description}}\item[{said}] {_tex(piece.more[0])}\end{{description}}"
        case "bold":
            return rf"\textbf{{{said}.}} {_tex(piece.more[0])}" + "\n"
        case "theorem":
            return rf"\par\textbf{{Theorem.}} \textit{{{_tex(piece.more[0])}}}" + "\n\n"
    return said + r"\footnote{A note on it.}" * (len(said) % 7 == 0) + "\n"


def _letter(class_: str, dice: random.Random) -> str:
    body = "\n\n".join(_tex(paragraph(dice)) for _ in range(5))
    head = r"\setkomavar{subject}{The Price of Rope}" if "scrlttr2" in class_ else ""
    bold = "" if head else r"\textbf{Subject: the price of rope}\par "
    return (
        rf"\documentclass{class_}\begin{{document}}{head}\begin{{letter}}{{Ada Lovelace\\12 Mill Lane\\Porthaven}}"
        rf"\opening{{Dear Ada,}}{bold}{body}\closing{{Yours sincerely,}}\end{{letter}}\end{{document}}"
    )


def tex_sources() -> Iterator[Source]:
    for seed, (name, class_, preamble, sections, depth, kinds, contents, held) in enumerate(_TEX):
        dice = random.Random(seed)
        if not sections:
            yield Source(f"tex-{name}", "tex", _letter(class_, dice), [], "", held)
            continue
        chapters = any(part in class_ for part in ("{book", "report", "scrreprt", "memoir"))
        found = pieces(seed, sections, depth, kinds)
        title = f"On the {dice.choice(NOUNS)} and Its Uses"
        body = "\n\n".join(_tex_piece(piece, chapters) for piece in found)
        toc = r"\tableofcontents" * contents
        abstract = (
            rf"\begin{{abstract}}{_tex(paragraph(dice))}\end{{abstract}}"
            if "article" in class_ and seed % 2
            else ""
        )
        text = (
            rf"\documentclass{class_}{preamble}\title{{{title}}}\author{{Ada Lovelace\\Porthaven College}}"
            rf"\date{{March 2026}}\begin{{document}}\maketitle {abstract}{toc}"
            f"\n{body}\n\\end{{document}}\n"
        )
        yield Source(f"tex-{name}", "tex", text, headings_of(found), title, held)
