import pytest

from ingestor.connectors.remote.listings import address, entries

APACHE = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /docs</title></head>
<body><h1>Index of /docs</h1><table>
<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/">Parent Directory</a></td></tr>
<tr><td><a href="a%20b.md">a b.md</a></td></tr><tr><td><a href="sub/">sub/</a></td></tr>
</table></body></html>"""
NGINX = b"""<html><head><title>Index of /docs/</title></head><body><h1>Index of /docs/</h1><hr><pre>
<a href="../">../</a>\r\n<a href="caf%C3%A9.md">caf\xc3\xa9.md</a> 01-Jan-2026 10:00 5\r\n</pre>
<hr></body></html>"""
LINKS = b"""<a href="/docs/abs.md">x</a><a href="http://host/docs/full.md">x</a>
<a href="http://other/docs/no.md">x</a><a href="https://host/docs/no.md">x</a>
<a href="sub/deep/no.md">x</a><a href="mailto:me@host">x</a>
<a href="javascript:no()">x</a><a href="%2e%2e/no.md">x</a><a href="a%2fno.md">x</a><a href="#no">x</a>
<a href="R&amp;D.md">x</a><a href="http://[no">x</a><a>x</a>
<a href="here.md#part">x</a><a href="%FF.md">x</a>"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (APACHE, {"a b.md": False, "sub": True}),
        (NGINX, {"café.md": False}),
        (b"<html><title>Index of /docs/</title></html>", {}),
        (LINKS, dict.fromkeys(("abs.md", "full.md", "R&D.md", "here.md", "\udcff.md"), False)),
    ],
)
def test_entries_of_an_index_page_are_listed(page: bytes, expected: dict[str, bool]) -> None:
    assert entries(page, "http://host/docs/") == expected


@pytest.mark.parametrize("page", [b"", b"busy", b'{"error": "no"}', b"<?xml version='1.0'?><a/>"[:22]])
def test_content_without_an_index_is_neither_listed_nor_empty(page: bytes) -> None:
    with pytest.raises(ValueError, match="not a page of links"):
        entries(page, "http://host/docs/")


def test_address_leads_back_to_the_name() -> None:
    for name in ("a b.md", "café.md", "R&D?#%.md", "\udcff.md"):
        link = address("http://host/docs", name)
        assert entries(f'<a href="{link}">x</a>'.encode(), "http://host/docs/") == {name: False}
