"""The lexical index at scale: ``python -m benchmarks words [RECORDS]``; 100,000 by default.

Records have 100 words, drawn by Zipf's law from 50,000, and an identifier of their own. They are written in
batches of 400, as in the engine. Half of the questions are six words drawn by the same law, half an
identifier. Times are processor time, so that other programs matter less. *chroma* is the time to write the
same records into Chroma in this process.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks._words import Words
from ingestor.chroma.backend import Ownership, open_collections
from ingestor.config.servers import Supervised
from ingestor.core.entries import ChromaName
from ingestor.core.generations import Model
from ingestor.lexical.file import LexicalFile, open_for_reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.model import Fingerprint, Record, RecordId

LENGTH, DIMENSIONS, BATCH, QUESTIONS, COMPARED = 100, 384, 400, 200, 4_000


def main(count: int = 100_000) -> None:
    chance, draw = random.Random(0), np.random.default_rng(0)
    drawn = Words().drawn

    def records(start: int, size: int) -> list[Record]:
        vectors = draw.standard_normal((size, DIMENSIONS)).astype(np.float32)
        return [
            Record(RecordId(f"d{n}#0"), f"{drawn(LENGTH)} ERR_{n}", {"language": "en"}, vectors[n - start])
            for n in range(start, start + size)
        ]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexical.sqlite3"
        spent, characters = _written(path, records, count)
        size = sum(each.stat().st_size for each in Path(folder).glob("lexical.sqlite3*"))
        print(
            f"{count:,} records: {1e6 * spent / count:.0f} µs each, {size / characters:.2f} bytes a character"
        )
        some = records(0, min(count, COMPARED))
        share = spent / count / (_chroma(Path(folder), some) / len(some))
        print(f"writing words takes {share:.2f} of the time that chroma takes")
        asks = [drawn(6) if n % 2 else f"what is ERR_{chance.randrange(count)}?" for n in range(QUESTIONS)]
        print("milliseconds a question: p50 {:.1f}, p95 {:.1f}, most {:.1f}".format(*_asked(path, asks)))


def _written(path: Path, records: Callable[[int, int], list[Record]], count: int) -> tuple[float, int]:
    """Write the records; return processor seconds and characters."""
    file, spent, characters = LexicalFile(path), 0.0, 0
    index = LexicalIndex(file, "all")
    for start in range(0, count, BATCH):
        batch = records(start, min(BATCH, count - start))
        characters += sum(len(record.text) for record in batch)
        before = time.process_time()
        index.upsert(batch)
        spent += time.process_time() - before
    file.close()
    return spent, characters


def _chroma(folder: Path, records: Sequence[Record]) -> float:
    chroma = Supervised(path=folder / "chroma")
    with open_collections(chroma, Ownership("benchmark"), folder / "chroma.log") as collections:
        model = Model(Fingerprint("benchmark"), None, lambda: DIMENSIONS)
        index, _ = collections.open(ChromaName("all-words"), model)
        before = time.process_time()
        for start in range(0, len(records), BATCH):
            index.upsert(records[start : start + BATCH])
        return time.process_time() - before


def _asked(path: Path, questions: Sequence[str]) -> Iterator[float]:
    with open_for_reading(path) as db:
        number = int(db.execute("SELECT number FROM collections").fetchone()[0])
        spent = []
        for question in questions:
            before = time.process_time()
            rank_by_words(db, number, question, 50)
            spent.append(1000 * (time.process_time() - before))
    return iter([*np.percentile(spent, [50, 95]), max(spent)])
