"""Tables of papers with rules above and below only: recall of rows, and false tables.

``python -m benchmarks tables [PAPERS]``: PAPERS papers (default 50), made from TeX with known tables. Each
has tables with booktabs' or plain rules, and other things between rules: algorithms, remarks, code. Needs
pdflatex (texlive-latex-recommended).
"""

import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks._needs import need_program
from benchmarks._pieces import NOUNS, paragraph
from ingestor.model import Blob
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions

FOLDER = Path(__file__).parent.parent / ".cache" / "tables"
Rows = list[tuple[str, ...]]


def main(papers: int = 50) -> None:
    need_program("pdflatex", "texlive-latex-recommended")
    FOLDER.mkdir(parents=True, exist_ok=True)
    parser = PLUGIN.build(PdfOptions())
    true = found = right = tables = whole = wrong = 0
    for seed in range(papers):
        text, known = _paper(random.Random(seed))
        document = parser.parse(Blob(_built(f"{seed}", text), "a.pdf"))
        read = [
            _rows(document.text[block.start : block.end])
            for block in document.blocks
            if block.kind == "table"
        ]
        wanted, got = Counter(_keys(known)), Counter(_keys(read))
        true, found, right = true + wanted.total(), found + got.total(), right + (wanted & got).total()
        tables += len(known)
        whole += sum(all(key in got for key in _keys([rows])) for rows in known)
        wrong += sum(not any(key in wanted for key in _keys([rows])) for rows in read)
    print(
        f"{papers} papers, {tables} tables: {whole} whole; rows {right} of {true} found ({right / true:.0%}),"
    )
    print(
        f"{right / max(found, 1):.0%} of {found} rows that were read are right; {wrong} tables that are none"
    )


def _keys(tables: Sequence[Rows]) -> list[str]:
    """Return rows as bare lines, without spaces."""
    return ["".join("".join(row).split()) for rows in tables for row in rows]


def _rows(text: str) -> Rows:
    return [(line,) for line in text.splitlines()]


def _paper(dice: random.Random) -> tuple[str, list[Rows]]:
    columns = dice.random() < 0.4
    rules = dice.choice(["booktabs", "hline"])
    parts, known = [paragraph(dice)], []
    for _ in range(dice.randint(2, 4)):
        rows = _table(dice, 3 if columns else 6)
        known.append(rows)
        parts += [_tex(rows, rules, dice), *(paragraph(dice) for _ in range(dice.randint(2, 4)))]
        if dice.random() < 0.5:
            parts += [_none(dice), paragraph(dice)]
    preamble = r"\usepackage{booktabs}" + dice.choice(
        ["", r"\usepackage{mathptmx}", r"\usepackage{mathpazo}"]
    )
    class_ = f"[{dice.choice(['10pt', '11pt'])}{',twocolumn' if columns else ''}]{{article}}"
    body = "\n\n".join(parts)
    return f"\\documentclass{class_}{preamble}\\begin{{document}}\n{body}\n\\end{{document}}\n", known


def _table(dice: random.Random, widest: int) -> Rows:
    width, height = dice.randint(2, widest), dice.randint(2, 9)
    names = [dice.choice(NOUNS) for _ in range(width)]
    kinds = ["word", *(dice.choice(["word", "whole", "real", "share"]) for _ in range(width - 1))]
    rows = [tuple(_cell(kind, dice) for kind in kinds) for _ in range(height)]
    return [tuple(names), *rows]


def _cell(kind: str, dice: random.Random) -> str:
    match kind:
        case "word":
            return " ".join(dice.choice(NOUNS).lower() for _ in range(dice.randint(1, 2))).capitalize()
        case "whole":
            return str(dice.randint(1, 99_999))
        case "real":
            return f"{dice.random() * 100:.2f}"
    return f"{dice.randint(1, 99)}.{dice.randint(0, 9)} %"


def _tex(rows: Rows, rules: str, dice: random.Random) -> str:
    top, middle, bottom = (
        (r"\toprule", r"\midrule", r"\bottomrule") if rules == "booktabs" else (r"\hline",) * 3
    )
    form = "l" + "".join(dice.choice("lcr") for _ in rows[0][1:])
    lines = [" & ".join(row).replace("%", r"\%") + r" \\" for row in rows]
    if len(rows) > 5 and dice.random() < 0.3:
        lines.insert(4, middle)
    bold = " & ".join(rf"\textbf{{{name}}}" for name in rows[0]) + r" \\" if dice.random() < 0.5 else lines[0]
    inside = "\n".join([top, bold, middle, *lines[1:], bottom])
    return (
        rf"\begin{{table}}[htb]\centering\caption{{{' '.join(dice.choices(NOUNS, k=4))}}}"
        rf"\begin{{tabular}}{{{form}}}{inside}\end{{tabular}}\end{{table}}"
    )


def _none(dice: random.Random) -> str:
    """Return TeX of something between rules that is no table."""
    rule = r"\par\noindent\rule{\linewidth}{0.4pt}\par\noindent "
    match dice.randrange(3):
        case 0:  # an algorithm
            steps = r"\\ ".join(
                rf"\quad {at}: {dice.choice(NOUNS)} $\leftarrow$ {dice.choice(NOUNS).lower()}"
                for at in range(1, 7)
            )
            return rf"{rule}\textbf{{Algorithm 1}} {dice.choice(NOUNS)}{rule}{steps}{rule}"
        case 1:  # a remark
            return rf"{rule}\textbf{{Remark}}{rule}{paragraph(dice)}{rule}"
    return rf"{rule}{dice.choice(NOUNS)}{rule}\begin{{verbatim}}" + (
        "\nfor name in names:\n    print(name)\n    count = count + 1\n\\end{verbatim}" + rule
    )


def _built(name: str, text: str) -> bytes:
    """Return the PDF of a text, made once."""
    made, old = FOLDER / f"{name}.pdf", FOLDER / f"{name}.tex"
    if not (made.exists() and old.exists() and old.read_text("utf-8") == text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / old.name).write_text(text, "utf-8")
            command = ("pdflatex", "-interaction=batchmode", old.name)
            subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=60)
            made.write_bytes((Path(folder) / made.name).read_bytes())
        old.write_text(text, "utf-8")
    return made.read_bytes()


if __name__ == "__main__":
    main()
