"""Whole numbers as documents write them. Pure."""

_LONGEST = 9  # digits; Python refuses to read more than some thousands


def whole(text: str, default: int) -> int:
    """The number, or the default for other text; a longer number counts as 999,999,999."""
    if not (text.isascii() and text.isdigit()):
        return default
    return int(text) if len(text) <= _LONGEST else 10**_LONGEST - 1
