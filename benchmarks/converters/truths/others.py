"""Mail, notebooks, tables, plain text, PDF."""

import csv
import email
import email.policy
import io
import json
import re
from collections import Counter
from pathlib import Path

from bs4 import BeautifulSoup

from benchmarks.converters.truths.pages import shown
from benchmarks.converters.truths.shape import Truth, decoded, tabular


def mail(path: str) -> Truth:
    message = email.message_from_bytes(Path(path).read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    text_of_body = "" if body is None else body.get_content()
    if body is not None and body.get_content_subtype() == "html":
        text_of_body = "".join(shown(BeautifulSoup(text_of_body, "html5lib")).text)
    return Truth([str(message["subject"] or ""), text_of_body])


def msg(path: str) -> Truth:
    import olefile

    with olefile.OleFileIO(path) as file:
        text_of_body = []
        for code in ("0037", "1000"):
            for kind, encoding in (("001F", "utf-16-le"), ("001E", "cp1252")):
                if file.exists(f"__substg1.0_{code}{kind}"):
                    text_of_body.append(
                        file.openstream(f"__substg1.0_{code}{kind}").read().decode(encoding, "replace")
                    )
                    break
    if len(text_of_body) < 2:
        raise ValueError("has no plain body")
    return Truth(text_of_body)


def notebook(path: str) -> Truth:
    truth = Truth(headings=[])
    for cell in json.loads(Path(path).read_bytes())["cells"]:
        text_of_body = "".join(cell["source"])
        truth.text.append(text_of_body)
        if cell["cell_type"] == "markdown":
            truth.headings += re.findall(r"(?m)^#{1,6} +(.+?)[ #]*$", text_of_body)
        if cell["cell_type"] == "raw":  # of reStructuredText, perhaps
            truth.open += re.findall(r"(?m)^(.+)\n[=~^-]{3,}$", text_of_body)
    return truth


def table(path: str) -> Truth:
    text = Path(path).read_text("utf-8-sig", "replace")
    dialect = csv.Sniffer().sniff(text[:5000], ",;\t|")
    rows = list(csv.reader(io.StringIO(text), dialect))
    return Truth([" ".join(row) for row in rows], None, tabular(iter(rows)))


def plain(path: str) -> Truth:
    return Truth([Path(path).read_text("utf-8", "replace")])


def subtitles(path: str) -> Truth:
    lines = decoded(Path(path).read_bytes()).splitlines()
    kept = [
        line
        for line in lines
        if "-->" not in line and not line.strip().isdigit() and line.strip() != "WEBVTT"
    ]
    return Truth([re.sub(r"<[^>]*>|\{[^}]*\}", "", line) for line in kept])


def pdf(path: str) -> Truth:
    from pypdfium2 import PdfDocument

    document = PdfDocument(path)
    pages = [page.get_textpage().get_text_range().replace("\ufffe", "-").splitlines() for page in document]
    pages = [[line for line in lines if line.strip()] for lines in pages]
    edges = Counter(key for lines in pages for key in {_edge(line) for line in (*lines[:2], *lines[-2:])})
    often = {key for key, count in edges.items() if count >= max(3, len(pages) / 10)}
    body = [
        [
            line
            for at, line in enumerate(lines)
            if not ((at < 2 or at >= len(lines) - 2) and _edge(line) in often)
        ]
        for lines in pages
    ]
    keys = [[_letters(line) for line in lines] for lines in pages]
    heads, free = [], []
    for entry in document.get_toc():
        title, dest = entry.get_title(), entry.get_dest()
        at = dest.get_index() if dest else None
        if at is None or len(re.findall("[a-z]", _letters(title))) < 3:
            free.append(
                title
            )  # a version, or a letter of an index: too short to be distinguished from other lines
            continue
        lines = keys[at]
        joined = ("".join(lines[n : n + k]) for n in range(len(lines)) for k in (1, 2, 3))
        if any(
            text_of_body.endswith(_letters(title)) and len(text_of_body) < len(_letters(title)) + 10
            for text_of_body in joined
        ):
            heads.append(title)
        else:
            free.append(title)
    text = re.sub(
        r"(?<=[a-z])[-\u00ad\x02]\n(?=[a-z])", "", "\n".join(line for lines in body for line in lines)
    )
    return Truth([text], heads or None, None, free)


def _edge(line: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(line.split()))


def _letters(line: str) -> str:
    return re.sub(r"[\W_]+", "", line).casefold()
