"""How word processors write the numbers of lists and headings, and how they count them. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ingestor.parsers.shared.whole import whole

_PLACE = re.compile(r"%(\d)")
_ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")]
_ROMAN += [(50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
_HIGHEST = 4000
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
# Names of Word; OpenDocument shows the first numbers instead.
_BY_FIRST = {"1": "decimal", "i": "lowerRoman", "I": "upperRoman", "一": "chineseCountingThousand"}
_BY_FIRST |= {letters[0]: style for style, letters in _ALPHABETS.items()}
_BY_FIRST |= {
    "①": "decimalEnclosedCircle",
    "１": "decimalFullWidth",
    "А": "russianUpper",
    "а": "russianLower",
}


def written(value: int, style: str) -> str:
    """``value`` as a style of that name of Word's writes it; styles that are not known write decimals."""
    if value < 1 or value >= _HIGHEST:
        return str(value)
    if letters := _ALPHABETS.get(style.removesuffix("FullWidth")):
        return letters[(value - 1) % len(letters)] * ((value - 1) // len(letters) + 1)
    write = _WRITERS.get(style.removesuffix("Thousand"))
    return write(value) if write else str(value)


def counting_style(shown: str) -> str:
    """The name of the style that writes the first number so: "a", or "ア, イ, ウ, ..."; "bullet" of none."""
    return _BY_FIRST.get(shown[:1], "decimal") if shown else "bullet"


def _chinese(value: int) -> str:
    """一百零五, and 十二 at the beginning."""
    text = ""
    for worth, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, worth)
        if digit:
            text += _DIGITS[digit] + unit
        elif text and value and not text.endswith("零"):
            text += "零"
    return text.removeprefix("一") if text.startswith("一十") else text


def _japanese(value: int) -> str:
    """百五: nothing stands for zero, nor for one of a unit."""
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


@dataclass(frozen=True, slots=True)
class ListLevel:
    """``text`` has "%1" where the number of the outermost level stands, "%2" for the next."""

    format: str = "bullet"
    text: str = ""
    start: int = 1


class ListNumbers:
    """The numbers of lists, in the order of their paragraphs.

    ``patterns``: levels by name. ``lists``: by name, a pattern, and where its levels start again.
    """

    def __init__(
        self,
        patterns: Mapping[str, Mapping[int, ListLevel]],
        lists: Mapping[str, tuple[str, Mapping[int, int]]],
    ) -> None:
        self._patterns, self._lists = patterns, lists
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._seen: set[str] = set()

    def marker(self, list_id: str, level: int) -> str:
        """What stands in front of the next paragraph of that list: "2.1", "a)"; "" is a bullet."""
        pattern_id, restarts = self._lists.get(list_id, ("", {}))
        levels = self._patterns.get(pattern_id, {})
        counts = self._counts[pattern_id]
        if list_id not in self._seen:
            self._seen.add(list_id)
            counts |= {at: start - 1 for at, start in restarts.items()}
        here = levels.get(level, ListLevel())
        counts[level] = counts.get(level, here.start - 1) + 1
        for deeper in [at for at in counts if at > level]:
            del counts[deeper]
        if here.format in ("bullet", "none"):
            return ""

        def number(place: re.Match[str]) -> str:
            at = whole(place[1], 1) - 1
            other = levels.get(at, ListLevel("decimal"))
            return written(counts.get(at, other.start), other.format)

        return _PLACE.sub(number, here.text).strip()

    def restart(self, list_id: str, level: int, value: int) -> None:
        """The next paragraph of that level has this number."""
        self._counts[self._lists[list_id][0]][level] = value - 1


_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def raised(text: str) -> str:
    """A number that is set as a superscript: 10 and 6 must not become 106. Other text is unchanged."""
    digits = text.strip().lstrip("+-−")
    return text.translate(_RAISED) if digits.isascii() and digits.isdecimal() else text
