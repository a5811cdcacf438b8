import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.connectors.shared.keys import escape, key_of, names_of, unescape

NAMES = st.binary(min_size=1, max_size=30).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
TRICKY = st.lists(
    st.sampled_from([b"\\", b"x", b"E9", b"\\xE9", b"\\x5C", b"\xe9", "é".encode(), b"\n", b"\xed\xa0\x80"]),
    min_size=1,
    max_size=6,
).map(b"".join)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain.md", "plain.md"),
        ("Übung 文.md".encode(), "Übung 文.md"),
        (b"two\nlines", "two\nlines"),
        (b"back\\slash", "back\\slash"),
        (b"caf\xe9", r"caf\xE9"),
        (b"a\\b\xe9", r"a\x5Cb\xE9"),
        (rb"caf\xE9", r"caf\x5CxE9"),
        (rb"caf\xe9", r"caf\xe9"),  # lower case is no escape
        (b"\xed\xa0\x80", r"\xED\xA0\x80"),  # an encoded surrogate is not UTF-8
    ],
)
def test_name_not_in_utf8_is_escaped(raw: bytes, text: str) -> None:
    assert escape(os.fsdecode(raw)) == text


@given(NAMES | TRICKY)
def test_escaping_is_valid_utf8_and_reversible(raw: bytes) -> None:
    text = escape(os.fsdecode(raw))
    text.encode("utf-8")
    assert os.fsencode(unescape(text)) == raw


@given(st.lists(NAMES | TRICKY, unique=True, min_size=2))
@example([b"\xe9", rb"\xE9"])
def test_no_two_names_meet(raws: list[bytes]) -> None:
    assert len({escape(os.fsdecode(raw)) for raw in raws}) == len(raws)


@given(st.lists(NAMES, max_size=4))
def test_key_leads_back_to_its_names(raws: list[bytes]) -> None:
    names = [os.fsdecode(raw) for raw in raws]
    assert names_of(key_of(names)) == names


@pytest.mark.parametrize("key", ["..", "a/../b", "a//b", "/a", "a/", ".", r"a\x2Fb", r"\x2E\x2E", "a\0b"])
def test_key_that_could_lead_elsewhere_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="not the key of a file"):
        names_of(key)
