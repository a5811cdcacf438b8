import io
import zipfile
from xml.etree.ElementTree import tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.shared import package
from ingestor.parsers.shared.package import Package, stream, xml
from ingestor.ports import BadDocument
from tests.parsers.files import relations, zipped

LAUGHS = '<?xml version="1.0"?><!-- x --><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;">]><a>&c;</a>'
SPY = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'


@pytest.mark.parametrize("source", [LAUGHS, SPY, LAUGHS.encode("utf-16"), "<!DOCTYPE a [ ]><a/>"])
def test_declared_entities_are_refused_before_they_are_read(source: str | bytes) -> None:
    with pytest.raises(BadDocument, match="declares entities"):
        xml(source if isinstance(source, bytes) else source.encode(), "a.xml")


def test_declarations_elsewhere_are_not_fetched() -> None:
    assert xml(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/none.dtd"><a>text</a>', "a").text == "text"


@pytest.mark.parametrize(
    "source", [b"", b"<a>", b"<a></b>", b"<a>&nothing;</a>", b"\xff\xfe\x00", b"<a \x00/>"]
)
def test_part_not_well_formed_is_reported(source: bytes) -> None:
    with pytest.raises(BadDocument, match=r"is damaged: part\.xml: .*; save it again"):
        xml(source, "part.xml")


@pytest.mark.parametrize("depth", [400, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(BadDocument, match="nested too deeply"):
        xml(b"<a>" * depth + b"</a>" * depth, "a.xml")


def test_children_come_one_by_one_and_whole() -> None:
    source = b"<r><x><i>no</i></x><b><i>1<j/></i><i>2</i></b><b><i>3</i></b></r>"
    found = [(e.tag, e.text, len(e)) for e in stream(source, "a", lambda above: above.tag == "b")]
    assert found == [("i", "1", 1), ("i", "2", 0), ("i", "3", 0)]


def test_stream_yields_what_the_whole_tree_has() -> None:
    rows = "".join(f"<i n='{at}'>{at}<j>ü<k/>{'x' * at}</j>tail</i>\n" for at in range(20))
    source = f"<r><x>{rows}</x><d><b>{rows}</b></d><y/><b>{rows}</b><z>{rows}</z></r>".encode()
    found = [tostring(e).strip() for e in stream(source, "a", lambda above: above.tag == "b")]
    assert found == [tostring(e).strip() for b in xml(source, "a").iter("b") for e in b]


@pytest.mark.parametrize("source", [b"<a>" * 400, b"<b>" * 400 + b"</b>" * 400, b"<a>" * 100_000])
def test_deep_nesting_is_refused_before_all_is_read(source: bytes) -> None:
    with pytest.raises(BadDocument, match="nested too deeply"):
        list(stream(b"<r>" + source, "a.xml", lambda above: above.tag == "r"))


def test_bombs_are_detected_by_the_archive_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped({"big.xml": bytes(60_000_000), "sound.xml": "<a/>"})
    assert len(bomb) < 100_000
    opened = Package(bomb)
    assert opened.read("sound.xml") == b"<a/>"
    with pytest.raises(BadDocument, match=r"a part of 60,000,000 bytes, compressed to"):
        opened.read("big.xml")
    monkeypatch.setattr(package, "_TOTAL", 50_000_000)
    with pytest.raises(BadDocument, match=r"unpacks to 60,000,004 bytes in 2 parts"):
        Package(bomb)
    monkeypatch.setattr(package, "_ENTRIES", 1)
    with pytest.raises(BadDocument, match="so it is probably a decompression bomb"):
        Package(zipped({"a": "", "b": ""}))


def test_archive_directory_with_false_sizes_gives_no_more_bytes() -> None:
    data = bytearray(zipped({"a.xml": b"<a>" + b" " * 100_000 + b"</a>"}))
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    with pytest.raises(BadDocument, match="is damaged"):
        Package(bytes(data)).read("a.xml")


def test_encrypted_missing_or_truncated_part_is_refused() -> None:
    data = bytearray(zipped({"a.xml": "<a/>"}))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(BadDocument, match="is encrypted"):
        Package(bytes(data)).read("a.xml")
    with pytest.raises(BadDocument, match=r"its part b\.xml is missing"):
        Package(zipped({"a.xml": "<a/>"})).read("b.xml")
    with pytest.raises(BadDocument, match="is damaged or cut off"):
        Package(zipped({"a.xml": "<a/>"})[:-10])
    assert Package(zipped({"a.xml": "<a/>"})).optional("b.xml").tag == "none"


def test_relations_are_parts_or_urls() -> None:
    targets = relations(
        ("1", "styles", "styles.xml"), ("2", "x", "/top.xml"), ("3", "hyperlink", "http://x/../y")
    )
    up = targets.replace("styles.xml", "../docProps/a.xml")
    assert Package(zipped({"word/_rels/d.xml.rels": targets})).relations("word/d.xml") == {
        "1": ("styles", "word/styles.xml"), "2": ("x", "top.xml"), "3": ("hyperlink", "http://x/../y"),
    }  # fmt: skip
    assert Package(zipped({"word/_rels/d.xml.rels": up})).relations("word/d.xml")["1"][1] == "docProps/a.xml"


@given(st.binary(max_size=200), st.integers(0, 500), st.integers(0, 255))
def test_no_damage_gets_past_it(tail: bytes, at: int, value: int) -> None:
    file = io.BytesIO(zipped({"a.xml": "<a>text</a>", "b.xml": "<b/>"}))
    data = bytearray(file.getvalue() + tail)
    data[min(at, len(data) - 1)] = value
    try:
        found = Package(bytes(data))
        for name in found.names:
            found.xml(name)
    except BadDocument:
        return
    assert zipfile.is_zipfile(io.BytesIO(data))
