"""How word processors write the numbers of lists and headings. Pure."""

_ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")]
_ROMAN += [(50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
_HIGHEST = 4000


def written(value: int, style: str) -> str:
    """``value`` as decimal, lowerLetter, upperLetter, lowerRoman or upperRoman; others count as decimal."""
    if value < 1 or value >= _HIGHEST:
        return str(value)
    if style.endswith("Letter"):
        text = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
    elif style.endswith("Roman"):
        text = _roman(value)
    else:
        return str(value)
    return text.upper() if style.startswith("upper") else text


def _roman(value: int) -> str:
    text = ""
    for worth, letters in _ROMAN:
        count, value = divmod(value, worth)
        text += letters * count
    return text


_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def raised(text: str) -> str:
    """A number that is set as a superscript: 10 and 6 must not become 106. Other text is unchanged."""
    digits = text.strip().lstrip("+-−")
    return text.translate(_RAISED) if digits.isascii() and digits.isdecimal() else text
