"""What the names of styles say of a paragraph."""

import pytest

from ingestor.parsers.office.tree import CAPTION, CODE, QUOTE, TITLE, style_mark

NAMES = {
    CODE: "Source Code|Code|Code Block|code example 2|HTML Preformatted|Preformatted Text|Listing"
    "|Verbatim|Macro Text",
    QUOTE: "Quote|Intense Quote|Quotations|Block Text",
    CAPTION: "Caption|Figure|Abbildung",
    TITLE: "Title",
    "": "Resources|Table Source|Postcode|Postal Code|Dress Code|Code of Conduct|Error Codes|QR Code"
    "|Plain Text|Data Source|Price Quote|Unquoted|Subtitle|Book Title|Normal|",
}


@pytest.mark.parametrize(
    ("mark", "name"), [(mark, name) for mark, names in NAMES.items() for name in names.split("|")]
)
def test_style_is_known_by_its_whole_name(mark: str, name: str) -> None:
    assert style_mark([name]) == mark
    assert style_mark(["Mine", name]) == mark  # inherited
