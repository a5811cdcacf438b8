"""E-mail: subject, the best body, and who wrote to whom when; quoted lines are ``quote`` blocks.

The plain text is taken where there is one, else the HTML. Attachments are documents of their own (see
ingestor/pipeline/containers.py).
"""

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.html.parser import HtmlOptions, HtmlParser
from ingestor.parsers.mail import message as mail
from ingestor.parsers.mail.bodies import paragraphs, written
from ingestor.parsers.shared.compose import Composer
from ingestor.registry import Options, Plugin


class MailParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none
        self._html = HtmlParser(HtmlOptions(mode="full"))

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when its body is not text, or it is nested beyond reason."""
        message = mail.read(blob.data)
        subject = mail.header(message, "Subject")
        composer = Composer()
        composer.heading(subject, 1)
        plain = [body for body in mail.bodies(message, "plain") if body.strip()]
        raw_words = words(subject) + sum(map(words, plain))
        for body in plain:
            for kind, text in paragraphs(body):
                composer.add(kind, text)
        for body in [] if plain else mail.bodies(message, "html"):
            raw_words += self._add_html(composer, body)
        sender = mail.addresses(message, "From")
        people = {
            name: ", ".join(written(*pair) for pair in mail.addresses(message, name))
            for name in ("From", "To", "Cc")
        }
        extra = {
            "author": next((name or address for name, address in sender), None),
            **{name.lower(): shown for name, shown in people.items()},
            "date": mail.date(message),
        }
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type="message/rfc822",
            title=subject or None,
            language=mail.header(message, "Content-Language").partition(",")[0].strip() or None,
            extra=tuple((key, value) for key, value in extra.items() if value),
            raw_words=raw_words,
            left_out=composer.left_out,
        )

    def _add_html(self, composer: Composer, body: str) -> int:
        """Returns how many words the page holds."""
        page = self._html.read(body)
        for block in page.blocks:
            composer.add(
                block.kind, page.text[block.start : block.end],
                level=block.level and block.level + 1, title=block.title, number=block.number,
                language=block.language,
            )  # fmt: skip
        for rule, count in page.left_out:
            composer.leave_out(rule, count)
        return page.raw_words or 0


PLUGIN = Plugin(kind="mail", version=3, options=Options, build=MailParser)
