import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.epub import PLUGIN
from ingestor.ports import BadDocument
from ingestor.registry import Options
from tests.parsers.files import epub, zipped
from tests.parsers.laws import obeys_laws

PARSER = PLUGIN.build(Options())
CHAPTERS = {
    "a b.xhtml": "<h1>First</h1><p>One &nbsp; two.</p><pre><code>x = 1</code></pre>",
    "z.xhtml": "<h1>Last</h1><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
}


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.epub"))
    assert document is not None
    return document


def test_protected_and_damaged_books_are_reported() -> None:
    locked = '<e xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:CipherReference URI="OEBPS/{}"/></e>'
    fonts = {"META-INF/encryption.xml": locked.format("font.otf")}
    assert parse(epub(CHAPTERS, ["z.xhtml"], fonts)).blocks
    chapter = {"META-INF/encryption.xml": locked.format("z.xhtml")}
    with pytest.raises(BadDocument, match="digital rights"):
        PARSER.parse(Blob(epub(CHAPTERS, ["z.xhtml"], chapter), "a.epub"))
    with pytest.raises(BadDocument, match="no list of its chapters"):
        PARSER.parse(Blob(zipped({"mimetype": "application/epub+zip"}), "a.epub"))
