"""Lines of a PDF's page with their text, position and type, and how lines join to running text. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ingestor.core.completeness import words

LEADER = re.compile(r"(?:\s?[._]){4,}|…\s*\d+$")  # from a title to its page, in a table of contents
LARGE = 1.15  # times the size of most of the text: larger than it
_PROSE = 0.03  # times the code's characters: what is less does not tell the size of the text
_SHORT = 0.7  # of the widest line: ended on purpose
_LEVEL = 0.4  # sizes of the type between baselines of one row
_GAP = 0.9  # sizes of the type between two parts of a line
_WIDE, _ROW = 1.5, 3  # sizes of the type between two parts of a row, and such parts
_YEAR = re.compile(
    r"(?:19|20)\d\d[A-Z]?\*?|[1-4]Q\d*|Q[1-4]|H[12]|FY\d+|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2},?"
)
_UNITS = re.compile(
    r"\(?\s*(?:(?:(?:all|us|u\.s\.|canadian|dollars?|amounts?|figures?|numbers?|shares?|expressed|stated) )*"
    r"in (?:(?:us|u\.s\.|canadian|eur|usd|gbp|chf|€|£) )?"
    r"(?:thousand|million|billion|percent|dollar|euro|\$|€|£|%|(?:tsd|mio|mrd|mill?)\b)|unaudited\b(?! pro )"
    r"|\$ in|dollars? in|%\)|[€£¥$] ?(?:thousand|million|billion|m|bn|mio\.?|mrd\.?|k)$"
    r"|(?:thousand|million|billion)s?(?: of (?:shares|dollars|euros))?\)?$)",
    re.IGNORECASE,
)
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_COLUMNS = re.compile(
    r"(?:(?:fiscal |calendar |twelve |six |nine |three |thirteen |\d+ )?"
    r"(?:years?|months?|weeks?|quarters?|periods?) ended(?: .{0,40})?|(?:as of|as at|at) .{0,30}\d.{0,10})$"
    rf"|(?:fiscal )?years?$|{_MONTH} \d{{1,2}},?(?: \d{{4}})?$|(?:[%$] )?change(?: from prior year)?$"
    r"|(?:first|second|third|fourth) quarter(?: \d{4})?$|(?:three|six|nine|twelve) months$",
    re.IGNORECASE,
)
_BESIDE = re.compile(  # words that stand beside years in a header
    rf"notes?|change|variance|%|and|vs\.?|versus|fiscal|years?|months?|geschäftsjahr|\d\.|{_MONTH}",
    re.IGNORECASE,
)
SOFT = "\xad"  # where a line's end divides a word
_DIVIDED = re.compile(rf"(?<![^\W\d_])([^\W\d_]++){SOFT}([^\W\d_]+)")
_PLAIN_WORD = re.compile(rf"[^\W\d_]+(?:[-{SOFT}][^\W\d_]+)*")
_PART = 3  # letters of a part of a compound
_CLOSED = re.compile("some|any|every|there|where|here|how|who|what|when|with", re.IGNORECASE)  # "some-times"
_WITHOUT_SPACES = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uff60]")


@dataclass(frozen=True, slots=True)
class Word:
    """A word on a page. ``first``, ``last``: positions of its characters in the page's text.

    ``divided``: whether the line's end divides the word, so that it continues on the next line.
    """

    text: str
    left: float
    right: float
    baseline: float
    first: int = -1
    last: int = -1
    divided: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page. Distances are in points, from the left and the bottom of the page.

    ``hyphen``: whether the line's end divides its last word. ``rows``: rows of the table that the line stands
    for, of which ``header`` are its header. ``words``: the words with their positions; empty for text from
    OCR. ``tagged``: (element, level) of the heading in the document's tags that contains the line. ``item``:
    number of the list item in the tags that contains the line; 0 if there is none.
    """

    text: str
    left: float
    right: float
    baseline: float
    size: float
    bold: bool = False
    mono: bool = False
    hyphen: bool = False
    rows: tuple[tuple[str, ...], ...] = ()
    header: int = 0
    words: tuple[Word, ...] = ()
    italic: bool = False
    math: bool = False
    font: str = ""
    slanted: bool = False
    tagged: tuple[int, int] | None = None
    item: int = 0


@dataclass(frozen=True, slots=True)
class PageLines:
    """The lines of a page. ``comments``: readers' annotations. ``figures``: descriptions of pictures."""

    label: str
    height: float
    lines: tuple[Line, ...]
    comments: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of a PDF's outline. ``level`` 1 is the outermost; ``page`` counts from 0."""

    title: str
    level: int
    page: int


# --- where lines stand -------------------------------------------------------------------------------------


def is_level(line: Line, other: Line) -> bool:
    """Return whether two lines are at the same height on the page."""
    return abs(line.baseline - other.baseline) < _LEVEL * max(line.size, other.size)


def parts(line: Line, gap: float = _GAP) -> list[list[Word]]:
    """Return the words of a line in groups, divided at gaps wider than ``gap`` times its type size."""
    runs: list[list[Word]] = []
    for word in line.words:
        if runs and word.left - runs[-1][-1].right <= gap * line.size:
            runs[-1].append(word)
        else:
            runs.append([word])
    return runs


def is_row(line: Line) -> bool:
    """Return whether a line has enough wide gaps to be a row of a table."""
    return len(parts(line, _WIDE)) >= _ROW


def usual_leading(pages: Iterable[PageLines]) -> float:
    """Return the usual distance between neighbouring lines, as a multiple of their type size."""
    steps = (
        (above.baseline - below.baseline) / above.size
        for page in pages
        for above, below in pairwise(page.lines)
        if above.size and above.size == below.size
    )
    return median([step for step in steps if 0.8 < step < 3] or [1.2])


# --- what lines say ----------------------------------------------------------------------------------------


def body_size(pages: Iterable[PageLines]) -> float:
    """Return the type size of most of the text, in points; 0 if there is no text.

    Code counts only if there is hardly any other text.
    """
    sizes: Counter[float] = Counter()
    code: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            if not line.rows:
                (code if line.mono else sizes)[line.size] += len(line.text)
    if sizes.total() < _PROSE * code.total():
        sizes.update(code)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def words_in(pages: Iterable[PageLines]) -> int:
    """Count the words in the lines and tables of pages."""
    return sum(
        sum(words(cell.replace(SOFT, "")) for row in line.rows for cell in row)
        if line.rows
        else words(line.text.replace(SOFT, ""))
        for page in pages
        for line in page.lines
    )


def is_units(text: str) -> bool:
    """Return whether a line names the units of a table's figures, such as "in millions"."""
    return bool(_UNITS.match(text))


def is_columns(text: str) -> bool:
    """Return whether a line names columns of a table: years, months or dates."""
    names = text.replace("$", " ").split()
    years = list(map(_YEAR.fullmatch, names))
    if _COLUMNS.match(text) or (names and all(years)):
        return True
    named = any(year and len(year[0]) > 3 for year in years)
    return named and all(year or _BESIDE.fullmatch(name) for year, name in zip(years, names, strict=True))


# --- lines as running text ---------------------------------------------------------------------------------


def prose(lines: Sequence[Line]) -> str:
    """Return lines as running text. A line that ends long before the margin keeps its line break."""
    widest = max(line.right - line.left for line in lines)
    text = lines[0].text
    for above, line in pairwise(lines):
        text += _joint(above, line, widest) + line.text
    return LEADER.sub(" …", f"{text}-" if lines[-1].hyphen else text)


def _joint(above: Line, line: Line, widest: float) -> str:
    """Return the separator between two lines of one paragraph: "", a space, a newline or a hyphen.

    ``widest``: width of the paragraph's widest line.
    """
    if above.hyphen:
        return SOFT if line.text[:1].islower() else "-"
    short = above.right - above.left < _SHORT * widest or LEADER.search(above.text)
    if (short or is_row(above) or is_row(line)) and not is_level(above, line):
        return "\n"
    return "" if _WITHOUT_SPACES.match(above.text[-1:]) and _WITHOUT_SPACES.match(line.text) else " "


class Divisions:
    """Decides whether a hyphen at the end of a line divides a word, or belongs to a compound.

    The rest of the document decides: the joined word or the compound, whichever occurs more often. If they
    occur equally often, the word is a compound if both parts occur, or if most divided words are compounds. A
    part of a longer compound keeps its hyphen.
    """

    def __init__(self, pages: Iterable[PageLines]) -> None:
        text, self._words, self._compounds = "", Counter[str](), 0
        for line in (line for page in pages for line in page.lines):
            own = " ".join(cell for row in line.rows for cell in row) if line.rows else line.text
            words = _PLAIN_WORD.findall(own.casefold())
            self._words.update(words[: len(words) - line.hyphen])
            text += own + (SOFT if line.hyphen else "\n")
        for word in _DIVIDED.finditer(text):
            joined, compound = self._counts(word)
            self._compounds += (compound > joined) - (joined > compound)

    def mend(self, text: str) -> str:
        """Return a text with its divided words joined, and with the hyphens of compounds."""
        return _DIVIDED.sub(self._join, text).replace(SOFT, "") if SOFT in text else text

    def _join(self, word: "re.Match[str]") -> str:
        one, other, text, (begin, end) = word[1], word[2], word.string, word.span()
        joined, compound = self._counts(word)
        beside = "-" in (text[begin - 1 : begin], text[end : end + 1])
        known = min(len(one), len(other)) >= _PART and not _CLOSED.fullmatch(one)
        known = known and all(self._words[part.casefold()] for part in (one, other))
        alike = joined == compound and (known or self._compounds > 0)
        return f"{one}-{other}" if compound > joined or beside or alike else one + other

    def _counts(self, word: "re.Match[str]") -> tuple[int, int]:
        """Return how often the document has a divided word joined, and how often with a hyphen."""
        first, second = word[1].casefold(), word[2].casefold()
        return self._words[first + second], self._words[f"{first}-{second}"]
