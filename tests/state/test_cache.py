import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import blake2b

import numpy as np
import pytest

from ingestor.core.fingerprint import text_digest
from ingestor.model import Fingerprint
from ingestor.state.cache import VectorCache

ONE, OTHER = Fingerprint("11" * 16), Fingerprint("22" * 16)
DAY = 86_400.0


def vectors_of(texts, dimensions=64):
    """Arbitrary vectors, exact in float16, each a function of its text."""
    seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
    rows = [np.random.default_rng(seed).normal(size=dimensions) for seed in seeds]
    return np.array(rows, np.float16).astype(np.float32)


def fill(cache, texts, embedder=ONE, dimensions=64):
    digests = [text_digest(text) for text in texts]
    cache.put(embedder, digests, vectors_of(texts, dimensions))
    return digests


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.sqlite3"


@pytest.fixture
def cache(path):
    with closing(VectorCache(path, 10**9)) as cache:
        yield cache


def test_vector_comes_back_bit_for_bit_also_after_a_restart(path):
    texts = ["", "a", "b"]
    with closing(VectorCache(path, 10**9)) as cache:
        digests = fill(cache, texts)
    with closing(VectorCache(path, 10**9)) as cache:
        found = cache.get(ONE, [*digests, text_digest("unknown")])
    assert list(found) == digests
    assert np.array_equal(np.stack(list(found.values())), vectors_of(texts))
    assert all(vector.dtype == np.float32 for vector in found.values())


def test_vectors_that_float16_would_change_are_kept_whole(cache):
    vector = np.array([[1 / 3, 1e-9, -0.0, 65504.5]], np.float32)
    digest = text_digest("x")
    cache.put(ONE, [digest], vector)
    assert cache.get(ONE, [digest])[digest].tobytes() == vector.tobytes()


def test_rounded_vectors_take_two_bytes_a_number(path, cache):
    fill(cache, ["x"])
    cache.put(ONE, [text_digest("y")], np.full((1, 64), 1 / 3, np.float32))
    with closing(sqlite3.connect(path)) as db:
        assert [row[0] for row in db.execute("SELECT length(vector) FROM vectors")] == [128, 256]


def test_embedders_never_mix(cache):
    texts = ["a", "b"]
    digests = fill(cache, texts)
    cache.put(OTHER, digests[:1], -vectors_of(texts[:1]))
    assert list(cache.get(OTHER, digests)) == [digests[0]]
    assert np.array_equal(cache.get(OTHER, digests)[digests[0]], -cache.get(ONE, digests)[digests[0]])


def test_last_put_counts(cache):
    (digest,) = fill(cache, ["a"])
    cache.put(ONE, [digest], vectors_of(["b"]))
    assert np.array_equal(cache.get(ONE, [digest])[digest], vectors_of(["b"])[0])


def test_answers_are_kept_by_their_key(path, cache):
    assert cache.get_answer("k") is None
    cache.put_answer("k", "first")
    cache.put_answer("k", "second, 漢字\0")
    cache.close()
    with closing(VectorCache(path, 10**9)) as again:
        assert again.get_answer("k") == "second, 漢字\0"


def test_file_keeps_its_bound_and_the_least_recently_used_go_first(path):
    now = [0.0]
    bound = 2_000_000
    with closing(VectorCache(path, bound, lambda: now[0])) as cache:
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
    bound = 3_000_000
    with closing(VectorCache(path, bound)) as cache:
        statements = []
        cache._db.set_trace_callback(statements.append)
        for n in range(200):
            fill(cache, [f"{n}.{k}" for k in range(50)], dimensions=384)
    deletions = sum(statement.startswith("DELETE") for statement in statements)
    assert 0 < deletions < 40  # 10,000 put, about 2,500 kept, 500 forgotten at a time


def test_answers_are_forgotten_only_when_no_vector_is_left(path):
    with closing(VectorCache(path, 400_000)) as cache:
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
    with closing(VectorCache(path, 2_000_000, lambda: now[0])) as cache:
        digests = fill(cache, [str(n) for n in range(500)], dimensions=384)
        now[0] = day * DAY
        cache.put_document(ONE, "stamp", b"x" * 1_600_000)
        assert (cache.get_document(ONE) is not None) == (kept == "document")
        assert (len(cache.get(ONE, digests)) == 500) == (kept == "vectors")


def test_smaller_bound_gives_the_disk_back(path):
    with closing(VectorCache(path, 10**9)) as cache:
        fill(cache, [str(n) for n in range(5000)], dimensions=384)
    large = path.stat().st_size
    with closing(VectorCache(path, 1_000_000)):
        pass
    assert large > 4_000_000 > 1_200_000 > path.stat().st_size


def test_use_is_noted_once_a_day(path):
    now = [0.0]
    with closing(VectorCache(path, 10**9, lambda: now[0])) as cache:
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
    with closing(VectorCache(path, 10**9)) as cache:
        digests = fill(cache, ["a"])
    with closing(VectorCache(path, 10**9)) as cache:
        assert cache.get(ONE, digests)
    assert "is damaged or not ingestor's: created anew" in caplog.text


@pytest.mark.parametrize("at", range(0, 30, 3))
def test_damage_inside_the_file_never_gives_a_wrong_vector_nor_an_error(path, at):
    texts = [str(n) for n in range(400)]
    with closing(VectorCache(path, 10**9)) as cache:
        digests = fill(cache, texts)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(4096 * at // 3 + 300, size, 4096 * 5):
            file.seek(place)
            file.write(b"\xa5" * 900)
    truth = dict(zip(digests, vectors_of(texts), strict=True))
    with closing(VectorCache(path, 10**9)) as cache:
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
    with closing(VectorCache(path, 10**9)) as cache, closing(sqlite3.connect(path)) as other:
        digests = fill(cache, ["a"])
        cache._db.execute("PRAGMA busy_timeout = 1")
        other.execute("BEGIN EXCLUSIVE")
        assert not cache.get(ONE, fill(cache, ["b"]))
        assert len(cache.get(ONE, digests)) == 1
        other.rollback()
        assert cache.get(ONE, fill(cache, ["b"]))


def test_cache_is_shared_by_threads_and_processes(path):
    texts = [str(n) for n in range(600)]
    truth = dict(zip(map(text_digest, texts), vectors_of(texts), strict=True))

    def work(cache, start):
        for at in range(start, 600, 60):
            digests = fill(cache, texts[at : at + 60])
            got = cache.get(ONE, list(truth))
            assert set(digests) <= set(got)
            assert all(np.array_equal(vector, truth[digest]) for digest, vector in got.items())

    with closing(VectorCache(path, 10**9)) as first, closing(VectorCache(path, 10**9)) as second:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, [first, second] * 3, range(0, 60, 10)))
        assert len(first.get(ONE, list(truth))) == 600 == len(second.get(ONE, list(truth)))


def test_sound_cache_is_silent(path, caplog):
    caplog.set_level(logging.DEBUG, "ingestor")
    for _ in range(2):
        with closing(VectorCache(path, 10**6)) as cache:
            fill(cache, [str(n) for n in range(2000)], dimensions=384)
    assert not caplog.records


def test_using_it_after_closing_is_a_defect_that_shows(path):
    cache = VectorCache(path, 10**9)
    digests = fill(cache, ["a"])
    cache.close()
    with pytest.raises(sqlite3.ProgrammingError):
        cache.get(ONE, digests)
    with closing(VectorCache(path, 10**9)) as again:
        assert again.get(ONE, digests)
