import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.epub import PLUGIN
from ingestor.ports import BadDocument
from ingestor.registry import Options
from tests.parsers.files import epub, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
CHAPTERS = {
    "a b.xhtml": "<h1>First</h1><p>One &nbsp; two.</p><pre><code>x = 1</code></pre>",
    "z.xhtml": "<h1>Last</h1><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
}


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.epub"))
    assert document is not None
    return document


def test_chapters_in_reading_order() -> None:
    document = parse(epub(CHAPTERS, ["z.xhtml", "a b.xhtml"]))
    found = [(b.kind, b.level, t) for b, t in zip(document.blocks, texts(document), strict=True)]
    assert [text for kind, _, text in found if kind == "heading"] == ["Last", "First"]
    assert ("table", 0, "| a | b |\n| --- | --- |\n| 1 | 2 |") in found
    assert ("code", 0, "x = 1") in found
    assert (document.title, document.language) == ("A study", "en")
    assert document.extra == (("author", "Ada, Bo"),)


def test_a_list_of_chapters_that_is_of_no_use_is_done_without() -> None:
    document = parse(epub(CHAPTERS, ["nowhere.xhtml"]))
    assert [block.title for block in document.blocks if block.kind == "heading"] == ["First", "Last"]


def test_protected_and_damaged_books_are_told() -> None:
    locked = '<e xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:CipherReference URI="OEBPS/{}"/></e>'
    fonts = {"META-INF/encryption.xml": locked.format("font.otf")}
    assert parse(epub(CHAPTERS, ["z.xhtml"], fonts)).blocks
    chapter = {"META-INF/encryption.xml": locked.format("z.xhtml")}
    with pytest.raises(BadDocument, match="digital rights"):
        PARSER.parse(Blob(epub(CHAPTERS, ["z.xhtml"], chapter), "a.epub"))
    with pytest.raises(BadDocument, match="no list of its chapters"):
        PARSER.parse(Blob(zipped({"mimetype": "application/epub+zip"}), "a.epub"))


def test_figures_are_named_as_in_the_book() -> None:
    page = '<figure><img src="../images/a%20b.png"/><figcaption>The harbour</figcaption></figure>'
    (figure,) = parse(epub({"text/a.xhtml": page}, ["text/a.xhtml"])).blocks
    assert (figure.kind, figure.figure) == ("figure", "OEBPS/images/a b.png")
