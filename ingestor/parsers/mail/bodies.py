"""Rules for mails of all formats: which body is read, how people are named, and which blocks a mail has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingestor.core.completeness import words
from ingestor.model import Document
from ingestor.parsers.html.parser import HtmlOptions, read_page
from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

_QUOTED = re.compile(r"[ \t]?>")
_WORD = re.compile(r"\w+")
_MOST = 2000  # characters of people's names in the text
_NEW = 0.2  # share of distinct words from which on another body says more


@dataclass(frozen=True, slots=True)
class MailBody:
    """A body of a mail. ``page``: the document read from HTML; None for plain text.

    ``problem``: the error that was raised if the HTML could not be read.
    """

    text: str
    page: Document | None = None
    problem: BadDocument | None = None


def html_body(source: str) -> MailBody:
    """Read an HTML body.

    If this fails, return a body without text that holds the error: the mail may have an alternative body.
    """
    try:
        page = read_page(source, HtmlOptions(mode="full"))
    except BadDocument as error:
        return MailBody("", problem=error)
    return MailBody(page.text, page)


def best(alternatives: Sequence[Sequence[MailBody]]) -> Sequence[MailBody]:
    """Return the first alternative that has text, unless a later one has many words that the first lacks.

    An alternative consists of one or more bodies.
    """
    chosen: Sequence[MailBody] = ()
    for bodies in alternatives:
        if not chosen or not _is_filled(chosen) or _says_more(bodies, chosen):
            chosen = bodies
    return chosen


def add_letter(
    composer: Composer, subject: str, people: Mapping[str, str], bodies: Sequence[MailBody]
) -> int:
    """Add the blocks of a mail to ``composer``, and return the number of words in the mail.

    ``people``: names by role (From, To, Cc). Quoted lines of plain text become ``quote`` blocks. An HTML body
    is omitted if it adds hardly any word to the plain text before it. Raises BadDocument if no body can be
    read.
    """
    composer.heading(subject, 1)
    short = {role: names if len(names) <= _MOST else f"{names[:_MOST]} …" for role, names in people.items()}
    heads = "\n".join(f"{role}: {names}" for role, names in short.items() if names)
    composer.add("paragraph", heads)
    count = words(subject) + words(heads)
    problem = next((body.problem for body in bodies if body.problem), None)
    if problem and not _is_filled(bodies):
        raise problem
    for at, body in enumerate(bodies):
        page = body.page
        if page is None:
            for kind, text in paragraphs(body.text):
                composer.add(kind, text)
            count += words(body.text)
        elif at == 0 or bodies[at - 1].page or _says_more([body], [bodies[at - 1]]):
            for block in page.blocks:
                composer.add(
                    block.kind, page.text[block.start : block.end],
                    level=block.level and block.level + 1, title=block.title, number=block.number,
                    language=block.language,
                )  # fmt: skip
            composer.left_out.update(dict(page.left_out))
            count += page.raw_words or 0
    return count


def _is_filled(bodies: Sequence[MailBody]) -> bool:
    return any(body.text.strip() for body in bodies)


def _says_more(bodies: Sequence[MailBody], others: Sequence[MailBody]) -> bool:
    words, known = (frozenset(_WORD.findall(" ".join(b.text.lower() for b in of))) for of in (bodies, others))
    return len(words - known) > _NEW * len(words) + 1


def paragraphs(body: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each block in a plain-text body.

    Consecutive quoted lines are one ``quote``; other lines are paragraphs, which end at a blank line.
    """
    kind, run = "paragraph", list[str]()
    for line in body.splitlines():
        now = "quote" if _QUOTED.match(line) else "paragraph"
        if now != kind or not line.strip():
            yield kind, "\n".join(run)
            kind, run = now, []
        run.append(line)
    yield kind, "\n".join(run)


def format_address(name: str, address: str) -> str:
    """Return ``Ada <ada@example.org>``, or only the name or the address if the other is missing."""
    return f"{name} <{address}>" if name and address else name or address
