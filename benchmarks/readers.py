"""Speed of reading documents compared with kreuzberg: both read the same documents, in turn, several times.

``python -m benchmarks readers [ROUNDS] [MOST] [FORMATS]``: at most MOST documents of each format of
``formats`` that both converters read. The least time of each document counts, in CPU seconds without start
and import, so that ratios are valid on a busy machine, too.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.converters.documents import entries, file_of
from benchmarks.converters.environments import CONVERTERS, FOLDER, Answer, Item, answers
from benchmarks.formats import chosen

_OURS, _THEIRS = "ingestor", "kreuzberg"
_EQUAL = 0.95  # of the other's rate; two runs differ by this much

Rates = Mapping[str, tuple[int, float, float]]  # format -> documents, MB/s of ours, MB/s of theirs


def main(rounds: int = 5, most: int = 25, formats: str = "") -> None:
    """Print a table. ``formats``: names, separated by commas; all by default."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed = [one for one in entries() if not formats or one.format in formats.split(",")]
    items = [(one.key, str(path), one.format) for one in chosen(listed, most) if (path := file_of(one))]
    ours, theirs = (one for one in CONVERTERS if one.name in (_OURS, _THEIRS))
    items = [item for item in items if item[2] in ours.formats and item[2] in theirs.formats]
    turns = [[answers(converter, items) for converter in (ours, theirs)] for _ in range(rounds)]
    own, other = (_least([turn[at] for turn in turns]) for at in range(2))
    print(f"\n| Format | Files | {_OURS}, MB/s | {_THEIRS}, MB/s |\n|---|---|---|---|")
    for kind, (files, rate, rival) in rates(items, own, other).items():
        rate_shown = f"**{rate:.1f}**" if rate >= _EQUAL * rival else f"{rate:.1f}"
        print(f"| {kind} | {files} | {rate_shown} | {rival:.1f} |")


def rates(items: Sequence[Item], own: Mapping[str, float], other: Mapping[str, float]) -> Rates:
    """Return megabytes a second over documents that both have read. ``own``, ``other``: seconds by key."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for key, path, kind in items:
        if key in own and key in other:
            row = (1, Path(path).stat().st_size / 1e6, own[key], other[key])
            sums[kind] = [a + b for a, b in zip(sums[kind], row, strict=True)]
    return {
        kind: (int(files), size / max(ours, 1e-6), size / max(theirs, 1e-6))
        for kind, (files, size, ours, theirs) in sums.items()
    }


def _least(turns: Sequence[Mapping[str, Answer]]) -> dict[str, float]:
    """Return CPU seconds of each document, without documents that were unreadable or empty."""
    read = [key for key in turns[0] if all(t[key].text.strip() and not t[key].error for t in turns)]
    return {key: min(turn[key].seconds for turn in turns) for key in read}
