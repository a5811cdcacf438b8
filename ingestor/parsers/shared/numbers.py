"""Reads whole numbers in documents, and writes numbers as lists and superscripts show them. Pure."""

import re
from collections.abc import Callable

_ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")]
_ROMAN += [(50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
_HIGHEST = 4000
_LONGEST = 9  # digits; Python refuses to read more than some thousands
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
_DIGITS = "〇一二三四五六七八九"
_ALPHABETS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "upperLetter": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЭЮЯ",
    "aiueo": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
    "iroha": "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス",
    "ganada": "가나다라마바사아자차카타파하",
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
}
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def parse_integer(text: str, default: int) -> int:
    """Return a text as a whole number; ``default`` if it is none. Longer numbers become 999,999,999."""
    if not (text.isascii() and text.isdigit()):
        return default
    return int(text) if len(text) <= _LONGEST else 10**_LONGEST - 1


def is_known(style: str) -> bool:
    """Return whether ``write_number`` writes this number style of Word by letters, numerals or words.

    Return False for decimals and for unknown styles, which are written as decimals.
    """
    return style.removesuffix("FullWidth") in _ALPHABETS or style.removesuffix("Thousand") in _WRITERS


def write_number(value: int, style: str) -> str:
    """Write a number in a number style of Word, such as "lowerRoman"; in decimals if the style is unknown."""
    if value < 1 or value >= _HIGHEST:
        return str(value)
    if letters := _ALPHABETS.get(style.removesuffix("FullWidth")):
        return letters[(value - 1) % len(letters)] * ((value - 1) // len(letters) + 1)
    write = _WRITERS.get(style.removesuffix("Thousand"))
    return write(value) if write else str(value)


def raise_digits(text: str) -> str:
    """Write a number in superscript characters; return other text unchanged.

    Otherwise 10 and its exponent 6 would read as 106.
    """
    digits = text.strip().lstrip("+-−")
    return text.translate(_RAISED) if digits.isascii() and digits.isdecimal() else text


def _chinese(value: int) -> str:
    """Return a number in Chinese, such as 一百零五; without 一 in front of a leading 十, as in 十二."""
    text = ""
    for worth, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, worth)
        if digit:
            text += _DIGITS[digit] + unit
        elif text and value and not text.endswith("零"):
            text += "零"
    return text.removeprefix("一") if text.startswith("一十") else text


def _japanese(value: int) -> str:
    """Return a number in Japanese, such as 百五: zeros, and a one before 十, 百 or 千, are not written."""
    return re.sub("一(?=[千百十])", "", _chinese(value)).replace("零", "")


def _roman(value: int) -> str:
    text = ""
    for worth, letters in _ROMAN:
        count, value = divmod(value, worth)
        text += letters * count
    return text


_WRITERS: dict[str, Callable[[int], str]] = {
    "lowerRoman": _roman,
    "upperRoman": lambda value: _roman(value).upper(),
    "decimalZero": lambda value: f"{value:02}",
    "decimalFullWidth": lambda value: str(value).translate(_WIDE),
    "decimalEnclosedCircle": lambda value: chr(0x2460 + value - 1) if value <= 20 else str(value),
    **dict.fromkeys(("chineseCounting", "taiwaneseCounting"), _chinese),
    "japaneseCounting": _japanese,
    "ideographDigital": lambda value: "".join(_DIGITS[int(digit)] for digit in str(value)),
}
