"""Versions of listed documents in memory, in place of the journal's."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence


class VersionTable:
    """An implementation of KnownVersions in memory."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions, self._keys = versions, sorted(versions)

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return {key: self._versions[key] for key in keys if key in self._versions}

    def below(self, under: str) -> Mapping[str, str]:
        return {key: self._versions[key] for key in self.keys([under])}

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        for top in under:
            if top == "":
                yield from self._keys
                continue
            yield from self.of([top])
            first, end = (bisect_left(self._keys, top + mark) for mark in "/0")  # 0 follows /
            yield from self._keys[first:end]

    def count(self) -> int:
        return len(self._versions)
