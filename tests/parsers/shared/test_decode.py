from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.shared.decode import decode
from ingestor.ports import BadDocument

GERMAN = "Über den Wäldern lag früh am Morgen dichter Nebel; die Straßen waren naß. Schöne Grüße."
SWEDISH = "På ön finns det många älgar och en å."
QUOTES = "It\u2019s \u201cfine\u201d \u2014 really. " + "The committee met on Tuesday. " * 40
ONE_ACCENT = "Plain English goes on and on. " * 200 + "A café."
POLISH = "Zażółć gęślą jaźń. W Szczebrzeszynie chrząszcz brzmi w trzcinie."
TURKISH = "Pijamalı hasta yağız şoföre çabucak güvendi. Öğleden sonra güneş açacak."
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю."
JAPANESE = "日本語の文章です。ひらがなとカタカナと漢字を含みます。"
CHINESE = "这是一个用于检测编码的中文句子，我们希望它能被正确识别。今天天气很好。"
KOREAN = "이것은 문자 인코딩을 감지하기 위한 한국어 문장입니다. 오늘 날씨가 좋습니다."

unicode_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=200)


def test_legacy_encoding_is_recognized() -> None:
    for text, encoding in [
        (GERMAN, "latin-1"), ("Grüße", "latin-1"), ("café", "latin-1"), (SWEDISH, "latin-1"),
        (QUOTES, "cp1252"), (ONE_ACCENT, "latin-1"), (POLISH, "cp1250"), (TURKISH, "cp1254"),
        (RUSSIAN, "cp1251"), (RUSSIAN, "koi8-r"), (JAPANESE, "cp932"), (JAPANESE * 3000, "cp932"),
        ("a" + JAPANESE * 3000, "cp932"), ("English first. " * 9000 + JAPANESE * 100, "cp932"),
        (JAPANESE, "euc_jp"), (CHINESE, "gb18030"), (KOREAN * 2000, "cp949"),
    ]:  # fmt: skip
        assert decode(text.encode(encoding)) == text


def test_declared_encoding_has_many_names() -> None:
    for declared, text, encoding in [
        ("x-sjis", JAPANESE, "cp932"), ("Windows-31J", JAPANESE, "cp932"), ("X-EUC-JP", JAPANESE, "euc_jp"),
        ("x-gbk", CHINESE, "gb18030"), ("windows-949", KOREAN, "cp949"), ("big5", "裏面", "cp950"),
        ("iso-8859-8-i", "שלום", "iso8859-8"), ("iso-8859-6-E", "سلام", "iso8859-6"),
        ("cp-850", "Grüße", "cp850"), ("dos-866", "Съешь", "cp866"), ("windows1251", "Съешь", "cp1251"),
        ("x-cp1252", "Grüße", "cp1252"), ("x-mac-roman", "Grüße", "mac_roman"),
        ("x-mac-cyrillic", "Съешь", "mac_cyrillic"), ("tis-620", "“ไทย”", "cp874"),
    ]:  # fmt: skip
        assert decode(text.encode(encoding), declared) == text, declared


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_text_is_read_with_and_without_mark(encoding: str) -> None:
    text = "First line\r\nsecond: größer, 日本語, \U0001f600\r\rlast\x0c"
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(("mark", "encoding"), [("\ufeff", "utf-8"), ("\ufeff", "utf-16-be"), ("", "utf-8")])
@given(text=unicode_texts)
def test_unicode_survives_exactly(mark: str, encoding: str, text: str) -> None:
    text = text.removeprefix("\ufeff")
    assert decode((mark + text).encode(encoding)) == text


def test_damaged_utf8_keeps_its_other_characters() -> None:
    text = "Größe und Güte. " * 500
    damaged = text.encode().replace(b"G\xc3\xbcte", b"G\xffte", 1)
    assert decode(damaged) == text.replace("Güte", "G\ufffdte", 1)


def test_utf16_with_lone_surrogates_loses_only_them() -> None:
    data = b"\xff\xfe" + ("word " * 100).encode("utf-16-le") + b"\x00\xd8" + "end".encode("utf-16-le")
    assert decode(data) == "word " * 100 + "\ufffdend"


def test_refuses_garbage_with_advice() -> None:
    for data in [
        b"\x00\x01\x02\x03" * 50, b"text " + b"\x00" * 50, bytes(range(256)) * 40,
        b"\xff\xfe" + bytes(range(1, 256)) * 40, b"\x01\x02\x03",
    ]:  # fmt: skip
        with pytest.raises(BadDocument, match=r"not text: .* exclude this file, or convert it to UTF-8"):
            decode(data)


def test_stray_control_character_is_no_garbage() -> None:
    assert decode(b"a\x01b\x02") == "a\x01b\x02"


def test_controls_of_terminals_and_page_printers_are_kept() -> None:
    log = "\x1b[31mred\x1b[0m and back\x08\x0cnext page\v\n" * 10
    assert decode(log.encode()) == log


def test_empty_data_gives_empty_text() -> None:
    assert decode(b"") == ""
    assert decode(b"\xef\xbb\xbf") == ""


@given(st.binary(max_size=600))
def test_any_bytes_give_text_or_a_reason(data: bytes) -> None:
    with suppress(BadDocument):
        decode(data).encode("utf-8")
