"""Decodes bytes to text, for every parser of a text format.

Encodings are tried in this order: by byte order mark, UTF-16 without a mark, strict UTF-8, damaged UTF-8.
Then charset-normalizer may recognise a legacy encoding in a sample; the last resort is Windows-1252. Newlines
are kept, and the byte order mark is dropped. So offsets into the text are offsets into the source as an
editor shows it.
"""

import codecs
import re

from ingestor.ports import BadDocument

_SAMPLE = 32_768  # bytes that a guess looks at
_DAMAGE = 0.001  # share of broken sequences up to which bytes still count as UTF-8
_GARBAGE = 0.01  # share of control and replacement characters above which this is no text (two are free)
_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\v\f\r\b\x1b") + b"\x7f"
_NOT_ASCII = bytes(range(128, 256))
_SURROGATES = re.compile("[\ud800-\udfff]")
_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_WESTERN_LETTERS = re.compile(rb"[\x8a\x8c\x8e\x9a\x9c\x9e\x9f\xc0-\xd6\xd8-\xf6\xf8-\xff]")
_TURKISH = frozenset("âçğıîöşûüÂÇĞİÎÖŞÛÜ".encode("cp1254"))
_ONLY_TURKISH = frozenset("ğışĞİŞ".encode("cp1254"))
_LEGACY = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1255", "cp1256", "cp1257", "iso8859_2"),
    *("koi8_r", "koi8_u", "cp866", "cp850", "mac_roman"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
# What people mean by a name is the superset of it that is in use; and the codecs that are character sets.
_SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "shift_jis": "cp932"}
_SUPERSETS |= {"gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "big5": "cp950"}
_SUPERSETS |= {"tis-620": "cp874", "iso8859-11": "cp874"}
# Names that browsers and mail programs write, and Python does not know.
_NAMES = {"x-sjis": "shift_jis", "windows-31j": "cp932", "x-euc-jp": "euc_jp", "x-gbk": "gbk"}
_NAMES |= {"x-mac-roman": "mac_roman", "x-mac-cyrillic": "mac_cyrillic"}
_CODE_PAGE = re.compile(r"(?:x-)?(?:cp|win|windows|dos|ibm)[-_]?(\d{3,4})")
_ORDERED = re.compile(r"(iso-8859-[68])-[ei]")  # how right-to-left text is stored
# They look like ASCII.
_SHIFTING = {"utf-7", "hz", "iso2022_jp", "iso2022_jp_2", "iso2022_jp_ext", "iso2022_kr"}
_CHARACTER_SETS = re.compile(r"ascii|utf-7$|cp\d|iso\d|koi8|mac|kz1048|ptcp|tis|euc|big5|gb|johab|shift|hz$")
# The mark of UTF-32-LE begins with that of UTF-16-LE: the longer ones come first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes, declared: str | None = None) -> str:
    """Return the text of a file in time linear in its length. Raises BadDocument if the file is not text.

    ``declared``: the encoding that the file or its source names; it is used only if the bytes are not UTF-8.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _check(data[len(mark) :].decode(encoding, "replace"), encoding)
    wide = utf16_without_mark(data)
    if wide:
        return _check(data.decode(wide, "replace"), wide)
    named = codec(declared)
    try:
        if named in _SHIFTING and data.isascii():
            return _check(data.decode(named, "replace"), named)
        return _check(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        if text := _decode_damaged(data):
            return text
        encoding = named or _recognise(data)
        return _check(_SURROGATES.sub("", data.decode(encoding, "replace")), encoding)


def utf16_without_mark(data: bytes) -> str | None:
    """Return the codec of UTF-16 text without a mark, by the positions of NUL bytes; None for other text."""
    sample = data[: _SAMPLE & ~1]
    if len(sample) < 4 or len(data) % 2 or b"\0" not in sample:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    pairs = len(sample) // 2
    if odd > 0.3 * pairs and even < 0.05 * pairs:
        return "utf-16-le"
    if even > 0.3 * pairs and odd < 0.05 * pairs:
        return "utf-16-be"
    return None


def codec(name: str | None) -> str | None:
    """Return the codec that people mean by the name of an encoding; None if it is no character set."""
    known = (name or "").strip().lower()
    known = _NAMES.get(known) or _ORDERED.sub(r"\1", _CODE_PAGE.sub(r"cp\1", known))
    try:
        encoding = codecs.lookup(known).name
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        return None
    return _SUPERSETS.get(encoding, encoding) if _CHARACTER_SETS.match(encoding) else None


def code_page(number: int) -> str:
    """Return the codec of a Windows code page; that of Western Europe for an unknown page."""
    return "utf-8" if number == 65001 else codec(f"cp{number}") or "cp1252"


def _decode_damaged(data: bytes) -> str | None:
    """Decode damaged UTF-8, with U+FFFD for each invalid sequence; return None if the data hardly is UTF-8.

    Invalid sequences must be few, and fewer than valid characters beyond ASCII. The second condition excludes
    a Latin-1 text with a rare accent.
    """
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    sound = len(text) - broken - len(data.translate(None, _NOT_ASCII))
    if broken <= _DAMAGE * len(data) and broken < sound:
        return _check(text, "utf-8")
    return None


def _recognise(data: bytes) -> str:
    """Return the legacy encoding of a text, judged by a sample around its first byte beyond ASCII."""
    first = _HIGH.search(data)
    assert first is not None  # else it would have been UTF-8
    near = max(0, first.start() - 1024)
    start = data.rfind(b"\n", near, first.start()) + 1 or near
    sample = data[start : start + _SAMPLE]
    if _looks_western(sample):
        return "cp1254" if _looks_turkish(sample) else "cp1252"
    from charset_normalizer import from_bytes  # slow to import, and seldom needed

    guesses = [from_bytes(cut, cp_isolation=_LEGACY).best() for cut in _cuts(sample)]
    best = min(filter(None, guesses), key=lambda guess: guess.chaos, default=None)
    return best.encoding if best else "cp1252"


def _looks_western(sample: bytes) -> bool:
    """Return whether bytes beyond ASCII are rare or isolated, like the accented letters of Western languages.

    Libraries that detect encodings misjudge such text: Swedish as Windows-1250, or a single accented word as
    Persian. In other scripts, such bytes come in runs. Hungarian and Romanian may be misread.
    """
    runs = _HIGH_RUN.findall(sample)
    high = sum(map(len, runs))
    if high > 0.2 * len(sample) + 2 or high > 1.2 * len(runs) + 1:
        return False
    return high < 0.01 * len(sample) or len(_WESTERN_LETTERS.findall(sample)) >= 0.8 * high


def _looks_turkish(sample: bytes) -> bool:
    """Return whether all accented letters are Turkish, and some of them are not Icelandic.

    The Turkish encoding differs from Windows-1252 in six letters, which are Icelandic there.
    """
    letters = {byte for byte in sample if byte >= 0xC0}
    return letters <= _TURKISH and not letters.isdisjoint(_ONLY_TURKISH)


def _cuts(sample: bytes) -> list[bytes]:
    """Return the sample, ending between two characters, so that no multi-byte character is split.

    The end is a space or line end. Without one, return two samples, one of which ends between characters.
    """
    if len(sample) < _SAMPLE:
        return [sample]
    end = max(sample.rfind(b"\n", -1024), sample.rfind(b" ", -1024)) + 1
    return [sample[:end]] if end else [sample, sample[:-1]]


def _check(text: str, encoding: str) -> str:
    """Return the text. Raises BadDocument if it has too many control codes or invalid characters."""
    source = text.encode("utf-8")
    garbage = len(source) - len(source.translate(None, _CONTROLS)) + text.count("\ufffd")
    if garbage > _GARBAGE * len(text) + 2:
        raise BadDocument(
            f"is not text: read as {encoding}, {garbage:,} of {len(text):,} characters are control codes or "
            "invalid; exclude this file, or convert it to UTF-8 text"
        )
    return text
