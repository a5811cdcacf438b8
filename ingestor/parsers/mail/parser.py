"""E-mail: the subject, the people and the best body become blocks; quoted lines are ``quote`` blocks.

Plain text is preferred to its HTML alternative, unless the HTML has many more words. Parts that are no
alternatives are all read. Attachments become documents of their own (see ingestor/archives/unpack.py).
"""

from ingestor.model import Blob, Document
from ingestor.parsers.mail import message as mail
from ingestor.parsers.mail.bodies import add_letter, format_address
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.plugin import parser_plugin


def parse(blob: Blob) -> Document:
    """Read a mail as a document.

    Raises BadDocument if its body is not text, or its parts are too many or nested too deep.
    """
    message = mail.read(blob.data)
    subject, composer = mail.header(message, "Subject"), Composer()
    people = {name: mail.addresses(message, name) for name in ("From", "To", "Cc")}
    shown = {name: ", ".join(format_address(*pair) for pair in pairs) for name, pairs in people.items()}
    raw_words = add_letter(composer, subject, shown, mail.bodies(message))
    return composer.document(
        "message/rfc822",
        title=subject,
        language=mail.header(message, "Content-Language").partition(",")[0].strip(),
        extra={
            "author": next((name or address for name, address in people["From"]), None),
            "from": shown["From"],
            "to": shown["To"],
            "cc": shown["Cc"],
            "date": mail.date(message),
        },
        raw_words=raw_words,
    )


PLUGIN = parser_plugin("mail", 8, parse)
