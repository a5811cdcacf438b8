"""The cache of vectors, answers and documents: exact, bounded, and right or empty on a damaged disk."""

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import blake2b
from random import Random

import numpy as np
import pytest

from ingestor.core.fingerprint import text_digest
from ingestor.model import Fingerprint
from ingestor.state import cache as cache_module
from ingestor.state.cache import VectorCache

ONE, OTHER = Fingerprint("11" * 16), Fingerprint("22" * 16)
DAY = 86_400.0


def vectors_of(texts, dimensions=64):
    """Arbitrary vectors, exact in float16, each a function of its text."""
    seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
    rows = [np.random.default_rng(seed).normal(size=dimensions) for seed in seeds]
    return np.array(rows, np.float16).astype(np.float32)


def fill(cache, texts, dimensions=64):
    digests = [text_digest(text) for text in texts]
    cache.put(ONE, digests, vectors_of(texts, dimensions))
    return digests


def reopened(path, size=10**9, *clock):
    return closing(VectorCache(path, size, *clock))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.sqlite3"


@pytest.fixture
def cache(path):
    with reopened(path) as cache:
        yield cache


def test_vector_comes_back_bit_for_bit_also_after_a_restart(path):
    texts = ["", "a", "b"]
    with reopened(path) as cache:
        digests = fill(cache, texts)
    with reopened(path) as cache:
        found = cache.get(ONE, [*digests, text_digest("unknown")])
    assert list(found) == digests
    assert np.array_equal(np.stack(list(found.values())), vectors_of(texts))
    assert all(vector.dtype == np.float32 for vector in found.values())


def test_vectors_are_kept_in_two_bytes_a_number_if_float16_does_not_change_them(path, cache):
    vector = np.array([[1 / 3, 1e-9, -0.0, 65504.5]], np.float32)
    fill(cache, ["x"])
    cache.put(ONE, [text_digest("y")], vector)
    assert cache.get(ONE, [text_digest("y")])[text_digest("y")].tobytes() == vector.tobytes()
    with closing(sqlite3.connect(path)) as db:
        assert [row[0] for row in db.execute("SELECT length(vector) FROM vectors")] == [2 * 64, 4 * 4]


def test_embedders_never_mix_and_the_last_put_counts(cache):
    texts = ["a", "b"]
    digests = fill(cache, texts)
    for sign in (1, -1):
        cache.put(OTHER, digests[:1], sign * vectors_of(texts[:1]))
    assert list(cache.get(OTHER, digests)) == [digests[0]]
    assert np.array_equal(cache.get(OTHER, digests)[digests[0]], -cache.get(ONE, digests)[digests[0]])


def test_answers_are_kept_by_their_key(path, cache):
    assert cache.get_answer("k") is None
    cache.put_answer("k", "first")
    cache.put_answer("k", "second, 漢字\0")
    cache.close()
    with reopened(path) as again:
        assert again.get_answer("k") == "second, 漢字\0"


def test_file_keeps_its_bound_and_the_least_recently_used_go_first(path):
    now = [0.0]
    bound = 2_000_000
    with reopened(path, bound, lambda: now[0]) as cache:
        kept = fill(cache, [f"kept {n}" for n in range(100)], dimensions=384)
        for day in range(1, 40):
            now[0] = day * DAY
            fill(cache, [f"{day}.{n}" for n in range(150)], dimensions=384)
            assert len(cache.get(ONE, kept)) == 100  # used every day
            assert path.stat().st_size < bound * 1.2
        last = [text_digest(f"39.{n}") for n in range(150)]
        first = [text_digest(f"1.{n}") for n in range(150)]
        assert len(cache.get(ONE, last)) == 150
        assert not cache.get(ONE, first)


def test_forgetting_frees_a_tenth_at_once(path):
    statements = []
    with reopened(path, 1_000_000) as cache:
        cache._db.set_trace_callback(statements.append)
        for n in range(100):
            fill(cache, [f"{n}.{k}" for k in range(30)], dimensions=384)
    deletions = sum(statement.startswith("DELETE") for statement in statements)
    assert 0 < deletions < 40  # 3,000 put, about 800 kept, 150 forgotten at a time


def test_answers_are_forgotten_only_when_no_vector_is_left(path):
    with reopened(path, 400_000) as cache:
        cache.put_answer("k", "x" * 1000)
        fill(cache, [str(n) for n in range(2000)], dimensions=384)
        assert cache.get_answer("k") is not None
        for n in range(500):
            cache.put_answer(str(n), "x" * 1000)
        assert cache.get_answer("k") is None
        assert cache.get_answer("499") is not None


@pytest.mark.parametrize(("day", "kept"), [(0, "vectors"), (1, "document")])
def test_documents_go_before_others_of_the_same_age(path, day, kept):
    now = [0.0]
    with reopened(path, 2_000_000, lambda: now[0]) as cache:
        digests = fill(cache, [str(n) for n in range(500)], dimensions=384)
        now[0] = day * DAY
        item = (bytes.fromhex(ONE),)
        cache.store(cache_module.DOCUMENTS, [(item, ("stamp", b"x" * 1_600_000))])
        assert bool(cache.find(cache_module.DOCUMENTS, [item])) == (kept == "document")
        assert (len(cache.get(ONE, digests)) == 500) == (kept == "vectors")


def test_smaller_bound_gives_the_disk_back(path):
    with reopened(path) as cache:
        fill(cache, [str(n) for n in range(5000)], dimensions=384)
    large = path.stat().st_size
    with reopened(path, 1_000_000):
        pass
    assert large > 4_000_000 > 1_200_000 > path.stat().st_size


def test_use_is_noted_once_a_day(path):
    now = [0.0]
    with reopened(path, 10**9, lambda: now[0]) as cache:
        digests = fill(cache, ["a", "b"])
        cache.put_answer("k", "x")
        statements = []
        cache._db.set_trace_callback(statements.append)
        for now[0] in (1.0, DAY, DAY + 1):
            cache.get(ONE, digests)
            cache.get_answer("k")
    assert sum(statement.startswith("UPDATE") for statement in statements) == 3


def another_database(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE vectors (mine)")


def another_version(path):
    VectorCache(path, 10**9).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 999")


@pytest.mark.parametrize(
    "spoil",
    [another_database, another_version, lambda path: path.write_bytes(b"not a database " * 1000)],
    ids=["another database", "another version", "garbage"],
)
def test_foreign_file_is_replaced(path, spoil, caplog):
    spoil(path)
    with reopened(path) as cache:
        digests = fill(cache, ["a"])
    with reopened(path) as cache:
        assert cache.get(ONE, digests)
    assert "is damaged or not ingestor's: created anew" in caplog.text


@pytest.mark.parametrize("at", range(0, 30, 9))
def test_damage_inside_the_file_never_gives_a_wrong_vector_nor_an_error(path, at):
    texts = [str(n) for n in range(400)]
    with reopened(path) as cache:
        digests = fill(cache, texts)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(4096 * at // 3 + 300, size, 4096 * 5):
            file.seek(place)
            file.write(b"\xa5" * 900)
    truth = dict(zip(digests, vectors_of(texts), strict=True))
    with reopened(path) as cache:
        found = cache.get(ONE, digests)
        assert len(found) < 400
        assert all(np.array_equal(vector, truth[digest]) for digest, vector in found.items())
        fill(cache, texts)
        fill(cache, texts)  # the first may be what discovers the damage
        assert len(cache.get(ONE, digests)) == 400


def test_full_disk_stops_neither_getting_nor_later_putting(cache, caplog):
    before = fill(cache, ["a", "b"])
    pages = cache._db.execute("PRAGMA page_count").fetchone()[0]
    cache._db.execute(f"PRAGMA max_page_count = {pages}")
    for n in range(3):
        lost = fill(cache, [f"{n}.{k}" for k in range(100)])
        assert not cache.get(ONE, lost)
    assert len(cache.get(ONE, before)) == 2
    assert [record.getMessage().count("disk is full") for record in caplog.records] == [1]
    cache._db.execute("PRAGMA max_page_count = 1000000")
    assert len(cache.get(ONE, fill(cache, ["c"]))) == 1


def test_cache_without_a_file_remembers_in_memory(tmp_path, caplog):
    with closing(VectorCache(tmp_path, 10**9)) as cache:  # a folder
        digests = fill(cache, ["a"])
        assert len(cache.get(ONE, digests)) == 1
    assert "memory" in caplog.text


def test_locked_file_is_an_empty_cache_and_not_an_error(path, monkeypatch):
    with reopened(path) as cache, closing(sqlite3.connect(path)) as other:
        digests = fill(cache, ["a"])
        cache._db.execute("PRAGMA busy_timeout = 1")
        other.execute("BEGIN EXCLUSIVE")
        assert not cache.get(ONE, fill(cache, ["b"]))
        assert len(cache.get(ONE, digests)) == 1
        other.rollback()
        assert cache.get(ONE, fill(cache, ["b"]))


def test_cache_is_shared_by_threads_and_processes(path):
    texts = [str(n) for n in range(300)]
    truth = dict(zip(map(text_digest, texts), vectors_of(texts), strict=True))

    def work(cache, start):
        for at in range(start, 300, 60):
            digests = fill(cache, texts[at : at + 60])
            got = cache.get(ONE, list(truth))
            assert set(digests) <= set(got)
            assert all(np.array_equal(vector, truth[digest]) for digest, vector in got.items())

    with reopened(path) as first, reopened(path) as second:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, [first, second] * 3, range(0, 60, 10)))
        assert len(first.get(ONE, list(truth))) == 300 == len(second.get(ONE, list(truth)))


def test_sound_cache_is_silent(path, caplog):
    caplog.set_level(logging.DEBUG, "ingestor")
    for _ in range(2):
        with reopened(path, 10**6) as cache:
            fill(cache, [str(n) for n in range(2000)], dimensions=384)
    assert not caplog.records


def test_using_it_after_closing_is_a_defect_that_shows(path):
    cache = VectorCache(path, 10**9)
    digests = fill(cache, ["a"])
    cache.close()
    with pytest.raises(sqlite3.ProgrammingError):
        cache.get(ONE, digests)
    with reopened(path) as again:
        assert again.get(ONE, digests)


# --- flipped bits -------------------------------------------------------------------------------------------

FLIPS = 20
TEXTS = [str(n) for n in range(300)]
DIGESTS = [text_digest(text) for text in TEXTS]
VECTORS = {digest: vector.tobytes() for digest, vector in zip(DIGESTS, vectors_of(TEXTS, 8), strict=True)}
ANSWERS = {digest: f"answer {digest} " * 3 for digest in DIGESTS}
DOCUMENTS = {digest: (f"stamp of {digest}", b"content of " + digest.encode()) for digest in DIGESTS}


def put_all(kind, cache):
    if kind == "vectors":
        cache.put(ONE, DIGESTS, vectors_of(TEXTS, 8))
    for key in DIGESTS if kind == "answers" else ():
        cache.put_answer(key, ANSWERS[key])
    if kind == "documents":
        cache.store(cache_module.DOCUMENTS, [((bytes.fromhex(key),), DOCUMENTS[key]) for key in DIGESTS])


def get_all(kind, cache):
    if kind == "vectors":
        return {digest: vector.tobytes() for digest, vector in cache.get(ONE, DIGESTS).items()}
    if kind == "answers":
        return {key: found for key in DIGESTS if (found := cache.get_answer(key)) is not None}
    found = ((key, cache.find(cache_module.DOCUMENTS, [(bytes.fromhex(key),)]).values()) for key in DIGESTS)
    return {key: tuple(content) for key, contents in found for content in contents}


TRUTH = {"vectors": VECTORS, "answers": ANSWERS, "documents": DOCUMENTS}


def flipped(whole, seed):
    random, damaged = Random(seed), bytearray(whole)
    for _ in range(FLIPS):
        at = random.randrange(8 * len(damaged))
        damaged[at // 8] ^= 1 << at % 8
    return bytes(damaged)


def trials(folder, kind, seeds):
    """Yield for each trial whether anything was wrong, and whether anything was found at all."""
    with reopened(folder / "sound") as cache:
        put_all(kind, cache)
    sound, at = (folder / "sound").read_bytes(), folder / "damaged"
    for seed in seeds:
        for suffix in ("", "-wal", "-shm"):
            at.with_name(at.name + suffix).unlink(missing_ok=True)
        at.write_bytes(flipped(sound, seed))
        with reopened(at) as cache:  # the first look renews days
            found = [*get_all(kind, cache).items(), *get_all(kind, cache).items()]
        yield any(TRUTH[kind][key] != value for key, value in found), bool(found)


@pytest.mark.parametrize("kind", TRUTH)
@pytest.mark.parametrize(
    ("seeds", "sound"), [(range(10), 1), pytest.param(range(200), 16, marks=pytest.mark.slow)]
)
def test_flipped_bits_never_return_the_content_of_another_key(tmp_path, kind, seeds, sound):
    results = list(trials(tmp_path, kind, seeds))
    assert not any(wrong for wrong, _ in results)
    assert sum(found for _, found in results) >= sound


@pytest.mark.parametrize("kind", TRUTH)
def test_checksum_without_the_key_gives_wrong_content(tmp_path, monkeypatch, kind):
    checksum = cache_module.checksum
    monkeypatch.setattr(cache_module, "checksum", lambda key, content: checksum((), content))
    assert any(wrong for wrong, _ in trials(tmp_path, kind, range(40)))


def test_table_that_is_gone_is_damage(path, caplog):
    with reopened(path) as cache:
        put_all("vectors", cache)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE vectors RENAME TO vectort")
    with reopened(path) as cache:
        put_all("vectors", cache)
    with reopened(path) as cache:
        assert get_all("vectors", cache) == VECTORS
    assert "is damaged or not ingestor's: created anew" in caplog.text
