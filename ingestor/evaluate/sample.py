"""A stratified sample of what sources list: the same documents every time. Pure.

Strata are a source and an ending of names. Any beginning of the order holds each stratum's share, about. It
holds a document of each stratum if there are as many places as strata.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from ingestor.core.fingerprint import text_digest
from ingestor.model import Item, SourceName

Listed = tuple[SourceName, Item]


def sort_by_digest(listed: Iterable[Listed], seed: int = 0) -> list[Listed]:
    """Sort the listed documents. Another ``seed`` gives another order.

    Within a stratum a digest of the name decides, so a new document moves no other.
    """
    strata: defaultdict[tuple[str, str], list[Listed]] = defaultdict(list)
    for source, item in listed:
        strata[source, PurePosixPath(item.key).suffix.lower()].append((source, item))

    def rank(each: Listed) -> str:
        source, item = each
        return text_digest(f"{source}\n{item.key}" + (f"\n{seed}" if seed else ""))

    places = [
        (number / len(members), rank(each), each)
        for members in strata.values()
        for number, each in enumerate(sorted(members, key=rank))
    ]
    return [each for _, _, each in sorted(places, key=lambda place: place[:2])]
