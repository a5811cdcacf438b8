"""A journal with many documents, as a daemon that has long been running would have it."""

from ingestor.core.entries import Edition, EditionName
from ingestor.model import CollectionName
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal

_STATES = ("settled",) * 96 + ("quarantined", "waiting", "due", "unsupported")


def _state(number: int) -> str:
    return _STATES[number // 7 % 100]


def fill(journal: Journal, documents: int, sources: int = 4, records: int = 5) -> None:
    """``documents`` in all, spread over ``sources``, which feed a collection each."""
    rows = [_document(number, f"source{number % sources}") for number in range(documents)]
    parts = (
        (number + 1, slot, "0" * 32, "0" * 32, "0" * 32, 0, b"0" * 16)
        for number in range(documents)
        for slot in range(records if _state(number) == "settled" else 0)
    )
    with journal.transaction() as db:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(
            f"""INSERT INTO documents (id, document_id, source, collection, key, wanted_version,
                    wanted_recipe, done_version, done_recipe, uri, size, modified, extra, facts, digest,
                    parser, attempts, reason, quarantined, since) VALUES ({marks})""",
            rows,
        )
        db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", parts)
        for number in range(sources):
            name = f"source{number}"
            db.execute("INSERT INTO sources (name, last_scan, documents) VALUES (?, 1.8e9, ?)", (name, 1))
    for number in range(sources):
        name = EditionName(f"source{number}")
        Editions(journal).note(
            Edition(
                name,
                CollectionName(name),
                uuids=(f"00000000-0000-0000-0000-{number:012d}",),
                embedder="abc123",
            )
        )


def _document(number: int, source: str) -> tuple[object, ...]:
    state = _state(number)
    key = f"{2000 + number % 25}/department-{number % 97:02d}/minutes of the meeting {number:06d}.md"
    done = None if state in ("waiting", "due") else "v1"
    reason = None if state in ("settled", "due") else f"is damaged or cut off (at byte {number})"
    return (
        number + 1, f"{number:016x}", source, source, key, "v1", "r1", done, "r1",
        f"/srv/files/{source}/{key}", 4000 + number % 5000, 1.7e9 + number, "[]", "f" * 32, "d" * 32,
        "-" if state == "unsupported" else "markdown", int(state == "waiting"), reason,
        int(state in ("quarantined", "unsupported")), 1.79e9 if done is None else None,
    )  # fmt: skip
