"""Finds the title of a PDF; for reports and press releases of companies: company, form and period. Pure.

A filed report has these on its cover, and a press release in its first sentence. The trading symbol follows
the company's name, because people search for companies by their symbols. For other documents, the title comes
from the metadata, else from the largest text of the first page.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ingestor.parsers.pdf.headings import LONGEST, may_be_title
from ingestor.parsers.pdf.lines import PageLines, body_size

_LONGEST_NAME = 100  # characters of a company's
_MUCH_LARGER = 1.3  # times the size of the text: a title on the first page
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"(?:{_MONTHS})\s+\d{{1,2}}\s?,\s+\d{{4}}"
_FORM = re.compile(r"\bform\s+((?:10|20|40)-?[FKQ]T?|[68]-K|11-K|S-\d)(?:/A)?\b", re.IGNORECASE)
_PERIOD = re.compile(
    rf"for the ((?:fiscal |quarterly )?(?:year|quarter|period)) ended.{{0,60}}?({_DATE})", re.IGNORECASE
)
_REPORTED = re.compile(
    rf"({_DATE})\s*\(?\s*Date of (?:earliest|report)|Date of report.{{0,60}}?({_DATE})", re.IGNORECASE
)
_CHARTER = re.compile(r"\(?exact name of (?:the )?registrant", re.IGNORECASE)
_ABOVE_NAME = re.compile(r"^(?:commission file .*?\d-\d+|_+)\s*", re.IGNORECASE)
_GROUP = re.compile(
    r"(?:notes to .{0,40}of )?(.{3,60}?),? and (?:consolidated )?subsidiaries$", re.IGNORECASE
)
_SYMBOLS = re.compile(r"trading\s+symbol", re.IGNORECASE)
_EXCHANGE = r"(?:N(?:ew|EW) Y(?:ork|ORK) S|NYSE|N(?:asdaq|ASDAQ))"
_LISTED = re.compile(rf"\b([A-Z]{{1,5}})\s+(?:T(?:he|HE)\s+)?{_EXCHANGE}")
_RELEASE = re.compile(
    r"((?:[A-Z][\w.&’'-]{0,80}+,?\s++(?:(?:&|and|of)\s++)?){1,6})"
    rf"\(\s*{_EXCHANGE}[^)]{{0,40}}?:\s*([A-Z.]{{1,6}})[^)]{{0,60}}\)"
    r"(?:,?\s+today\s+(?:announced|reported)\s+([^.“”]{5,90}))?"
)
_OF_PROGRAMS = re.compile(  # what programs put there: a name of a file, or their own
    r"(?:microsoft word|untitled|powerpoint|document)"
    r"|.*\.(?:docx?|dvi|tex|indd|pdf|qxd|pptx?|html?|xlsx?)$",
    re.IGNORECASE,
)


def title_of(pages: Sequence[PageLines], stated: str) -> str | None:
    """Return the title of a document; None if it has none. ``stated``: the title in its metadata."""
    stated = " ".join(stated.split())
    usable = re.search(r"[^\W\d_]{2}", stated) and not _OF_PROGRAMS.match(stated)
    largest = _largest(pages)
    return (
        _title_of_report(pages)
        or (stated if usable else None)
        or _title_of_release(pages, largest)
        or largest
    )


def _title_of_report(pages: Sequence[PageLines]) -> str | None:
    """Return company, form and period of a report filed with an authority; None for other documents."""
    lines = [line.text for page in pages[:2] for line in page.lines if not line.rows]
    joined = " ".join(lines)
    form, period, reported = _FORM.search(joined), _PERIOD.search(joined), _REPORTED.search(joined)
    charter = next((at for at, line in enumerate(lines) if _CHARTER.search(line)), 0)
    if not form or not charter:
        return None
    above = [line for line in lines[max(charter - 3, 0) : charter] if re.search(r"[^\W\d_]{2}", line)]
    company = _CHARTER.split(lines[charter])[0].strip(" (") or (above[-1] if above else "")
    company = _ABOVE_NAME.sub("", company).strip()
    if not company:  # a picture stands there
        groups = Counter(
            group[1] for page in pages for line in page.lines if (group := _GROUP.match(line.text))
        )
        company = max(groups, key=lambda name: groups[name], default="")
    if not company or len(company) > _LONGEST_NAME:
        return None
    cover = " ".join(_texts(pages[:2]))
    table = _SYMBOLS.search(cover)
    symbol = _LISTED.search(cover, table.end()) if table else None
    when = ""
    if period:
        when = f", {period[1].lower()} ended {period[2].title()}"
    elif reported:
        when = f", {(reported[1] or reported[2]).title()}"
    return f"{company}{f' ({symbol[1]})' if symbol else ''} Form {form[1].upper()}{when}"


def _title_of_release(pages: Sequence[PageLines], headline: str | None) -> str | None:
    """Return company, symbol and subject of a press release; None for other documents.

    ``headline``: the largest text on the first page.
    """
    match = _RELEASE.search(" ".join(_texts(pages[:1])))
    if not match:
        return None
    company, symbol, subject = match[1].strip(), match[2], match[3]
    if headline and company.split()[0].rstrip(",") in headline:
        return f"{headline} ({symbol})"
    return ", ".join(filter(None, (f"{company} ({symbol})", " ".join((headline or subject or "").split()))))


def _texts(pages: Sequence[PageLines]) -> Iterator[str]:
    for page in pages:
        for line in page.lines:
            yield from (" ".join(row) for row in line.rows) if line.rows else [line.text]


def _largest(pages: Sequence[PageLines]) -> str | None:
    """Return the largest text on the first page, if it is much larger than the rest; None otherwise."""
    lines = [line for line in (pages[0].lines if pages else ()) if may_be_title(line)]
    largest = max((line.size for line in lines), default=0.0)
    title = " ".join(line.text for line in lines if line.size == largest)
    return title if largest > _MUCH_LARGER * body_size(pages) and len(title) <= LONGEST else None
