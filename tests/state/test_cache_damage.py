"""Bits of the cache's file flip: what it then gives is right, or it gives nothing."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from ingestor.core.fingerprint import text_digest
from ingestor.model import Fingerprint
from ingestor.state import cache
from ingestor.state.cache import VectorCache
from tests.state.test_cache import vectors_of

FLIPS = 20
EMBEDDER = Fingerprint("11" * 16)
TEXTS = [str(n) for n in range(300)]
DIGESTS = [text_digest(text) for text in TEXTS]
VECTORS = dict(zip(DIGESTS, vectors_of(TEXTS, 8), strict=True))
ANSWERS = {digest: f"answer {digest} " * 3 for digest in DIGESTS}
DOCUMENTS = {digest: (f"stamp of {digest}", b"content of " + digest.encode()) for digest in DIGESTS}

Found = Mapping[str, object]
Experiment = tuple[Callable[[Path], None], Callable[[VectorCache], Found], Found]


def vectors(path: Path) -> None:
    with closing(VectorCache(path, 10**9)) as made:
        made.put(EMBEDDER, DIGESTS, vectors_of(TEXTS, 8))


def answers(path: Path) -> None:
    with closing(VectorCache(path, 10**9)) as made:
        for key, text in ANSWERS.items():
            made.put_answer(key, text)


def documents(path: Path) -> None:
    with closing(VectorCache(path, 10**9)) as made:
        for item, (stamp, data) in DOCUMENTS.items():
            made.put_document(item, stamp, data)


def found_vectors(opened: VectorCache) -> Found:
    return {digest: vector.tobytes() for digest, vector in opened.get(EMBEDDER, DIGESTS).items()}


def found_answers(opened: VectorCache) -> Found:
    return {key: found for key in ANSWERS if (found := opened.get_answer(key)) is not None}


def found_documents(opened: VectorCache) -> Found:
    return {item: found for item in DOCUMENTS if (found := opened.get_document(item)) is not None}


BYTES = {digest: vector.tobytes() for digest, vector in VECTORS.items()}
EXPERIMENTS: dict[str, Experiment] = {
    "vectors": (vectors, found_vectors, BYTES),
    "answers": (answers, found_answers, ANSWERS),
    "documents": (documents, found_documents, DOCUMENTS),
}


def flipped(whole: bytes, seed: int) -> bytes:
    random, damaged = Random(seed), bytearray(whole)
    for _ in range(FLIPS):
        at = random.randrange(8 * len(damaged))
        damaged[at // 8] ^= 1 << at % 8
    return bytes(damaged)


def trials(folder: Path, kind: str, seeds: Iterable[int]) -> Iterator[tuple[bool, bool]]:
    """Of each trial: whether anything was wrong, and whether anything was found at all."""
    build, find, truth = EXPERIMENTS[kind]
    build(folder / "sound")
    sound, at = (folder / "sound").read_bytes(), folder / "damaged"
    for seed in seeds:
        for suffix in ("", "-wal", "-shm"):
            at.with_name(at.name + suffix).unlink(missing_ok=True)
        at.write_bytes(flipped(sound, seed))
        with closing(VectorCache(at, 10**9)) as opened:
            first, again = find(opened), find(opened)  # the first renews days and checksums
        found = [*first.items(), *again.items()]
        yield any(truth[key] != value for key, value in found), bool(found)


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_flipped_bits_never_return_the_vector_of_another_text(tmp_path: Path, kind: str) -> None:
    said = list(trials(tmp_path, kind, range(10)))
    assert not any(bad for bad, _ in said)
    assert any(found for _, found in said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_flipped_bits_of_many_trials_never_return_the_vector_of_another_text(
    tmp_path: Path, kind: str
) -> None:
    said = list(trials(tmp_path, kind, range(600)))
    assert not any(bad for bad, _ in said)
    assert sum(found for _, found in said) > 50


def without_key(key: cache.Key, content: cache.Content) -> int:
    return _CHECKSUM((), content)


_CHECKSUM = cache.checksum


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_checksum_without_the_key_gives_wrong_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(cache, "checksum", without_key)
    assert any(bad for bad, _ in trials(tmp_path, kind, range(40)))


def test_table_that_is_gone_is_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vectors(tmp_path / "cache")
    with closing(sqlite3.connect(tmp_path / "cache")) as db, db:
        db.execute("ALTER TABLE vectors RENAME TO vectort")
    vectors(tmp_path / "cache")
    with closing(VectorCache(tmp_path / "cache", 10**9)) as opened:
        assert found_vectors(opened) == BYTES
    assert "is damaged or not ingestor's: created anew" in caplog.text
