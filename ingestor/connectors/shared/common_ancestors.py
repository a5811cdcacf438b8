"""Few subtrees for many keys. Pure."""

from collections.abc import Iterable


def cover(keys: Iterable[str], limit: int) -> list[str]:
    """Choose at most ``limit`` (one or more) keys that cover ``keys``: each key is chosen or below a chosen
    key.

    No chosen key is above another. If there are too many, parents replace the deepest first; "" is above all
    keys.
    """
    kept = _outermost(set(keys))
    while len(kept) > limit:
        depth = max(key.count("/") for key in kept)
        kept = _outermost({key.rpartition("/")[0] if key.count("/") == depth else key for key in kept})
    return sorted(kept)


def is_covered(key: str, by: set[str]) -> bool:
    """Whether an ancestor of ``key``, other than itself, is in the set."""
    if "" in by:
        return key != ""
    cut = key.find("/")
    while cut >= 0:
        if key[:cut] in by:
            return True
        cut = key.find("/", cut + 1)
    return False


def _outermost(keys: set[str]) -> set[str]:
    return {key for key in keys if not is_covered(key, keys)}
