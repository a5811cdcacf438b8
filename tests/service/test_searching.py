"""Tests ``POST /search`` over HTTP, with a real Chroma and a real lexical file."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from ingestor.core.entries import EditionName
from ingestor.model import Vectors
from ingestor.ports import Gone, Transient
from ingestor.search import search
from ingestor.search.rerankers import Reranker
from ingestor.search.values import EXPANSIONS, MODES, Question, answer_of, as_json
from ingestor.service import searching
from ingestor.state.editions import Editions
from tests.examples import examples
from tests.service.conftest import MODEL
from tests.service.world import Daemon, served
from tests.waiting import wait

Say = Callable[..., httpx.Response]


@pytest.fixture
def say(client: httpx.Client) -> Say:
    return lambda query="ERR_4711", **more: client.post("/search", json={"query": query, **more})


@pytest.mark.parametrize("mode", MODES)
def test_answer_has_hits_and_passages(say: Say, mode: str) -> None:
    said = say(mode=mode, n=2, collection="docs", expand="document")
    assert said.status_code == 200, said.text
    body = said.json()
    assert (body["mode"], body["fallback"]) == (mode, None)
    assert body.keys() == {"hits", "passages", "mode", "fallback", "seconds", "needed_tokens"}
    assert "ERR_4711" in body["hits"][0]["document"]
    assert body["hits"][0]["ranks"][mode if mode != "hybrid" else "lexical"] == 1
    assert body["passages"][0]["source"] == "/faq.md"
    assert "With a card" in body["passages"][0]["text"]
    assert json.loads(json.dumps(as_json(answer_of(body)))) == body
    hits = say("collection", mode=mode, where={"document_id": "code"}).json()["hits"]
    assert {hit["metadata"]["document_id"] for hit in hits} == {"code"}
    small = say(mode=mode, budget_tokens=1).json()
    assert small["passages"] == []
    assert say(mode=mode, budget_tokens=small["needed_tokens"]).json()["passages"]


def test_several_collections_answer_as_one(
    say: Say, daemon: Daemon, mail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted in ("*", ["docs", "mail"]):
        body = say(collection=wanted, n=4).json()
        assert {hit["collection"] for hit in body["hits"]} == {"docs", "mail"}
        assert len(body["hits"]) == 4
        assert {one["collection"] for one in body["passages"]} == {"docs", "mail"}
        assert body["fallback"].startswith("mail: ")
        assert json.loads(json.dumps(as_json(answer_of(body)))) == body
    assert say().json()["detail"] == "name a collection; known: docs, mail"
    said = say(collection=["docs", "nil"])
    unknown = "there is no collection 'nil'; known: docs, mail"
    assert (said.status_code, said.json()["detail"]) == (404, unknown)
    assert say(collection=["docs"]).json()["hits"][0]["collection"] == "docs"

    class Away:
        def __getattr__(self, name: str) -> Any:
            raise Transient("no answer")

    lost = Editions(daemon.journal).of_name(EditionName("mail")).uuids
    monkeypatch.setitem(daemon.collections, lost, Away())
    body = say(collection="*").json()
    assert {hit["collection"] for hit in body["hits"]} == {"docs"}
    assert body["fallback"].startswith("mail: ")
    assert say(collection=["mail"]).status_code == 503


QUESTIONS: list[dict[str, Any]] = [
    {"query": query, "mode": mode, "n": n, **more}
    for query in ("ERR_4711", "who is borrowing a book?", "get_or_create_collection", "Haus", "card §12")
    for mode in MODES
    for n, more in ((1, {}), (5, {"expand": "document"}), (3, {"where": {"language": "en"}}))
]


def answers(client: httpx.Client, at_once: int) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(at_once) as pool:
        said = pool.map(lambda question: client.post("/search", json=question), QUESTIONS)
        return [{**each.json(), "seconds": 0} for each in said]


def test_answers_of_eight_readers_are_those_of_one(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "DEPTH", 2)  # else every record is among the nearest
    alone = answers(client, 1)
    assert all(one["hits"] for one in alone if one["mode"] == "hybrid")
    assert answers(client, 8) == alone


def test_reranker_orders_hits_and_its_failure_is_reported(
    say: Say, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [hit["id"] for hit in say(n=2).json()["hits"]]
    monkeypatch.setattr(daemon, "reranker", Reranker(lambda question, texts: range(len(texts)), 2))
    said = say(n=2).json()
    assert [hit["id"] for hit in said["hits"]] == before[::-1]
    assert [hit["reranked"] for hit in said["hits"]] == [1, 0]
    monkeypatch.setattr(daemon, "reranker", Reranker(lambda question, texts: [], 2))
    said = say(n=2).json()
    assert [hit["id"] for hit in said["hits"]] == before
    assert said["fallback"].startswith("not reranked: ")


@pytest.mark.parametrize(
    ("body", "status", "where", "words"),
    [
        ({"collection": "other"}, 404, "collection", "known: docs"),
        ({"query": ""}, 422, "query", "not empty"),
        ({"distinct": 1}, 422, "distinct", "true or false"),
        ({"size": 3}, 422, "size", "known: query, collection"),
        ({"where": {"a": {"$like": "b"}}}, 422, "where", "$like"),
        ({"where": {"a": {"b": [{}]}}}, 422, "where", "unknown operator 'b'"),
        ({"where": {"path": {"$contains": "ref/"}}}, 422, "where", "'path', which is a text"),
        ({"where": {"headings": "FAQ"}}, 422, "where", '{"headings": {"$contains": "FAQ"}}'),
        ({"where": {"page": 1, "language": "en"}}, 422, "where", '{"$and": [{"page": 1}'),
        ({"where": {"$or": [{"page": n} for n in range(251)]}}, 422, "where", "at most 250 conditions"),
        ({"where": {"page": {"$in": [*range(5001)]}}}, 422, "where", "at most 5,000 values"),
        ({"where": []}, 422, "where", "an object"),
        ({"where": {"a": 2**70}}, 422, "where", "plain JSON"),
        ({"query": "x" * 300_000}, 413, None, "200,000 bytes"),
    ],
)
def test_mistake_is_reported_with_its_place(
    say: Say, body: dict[str, Any], status: int, where: str | None, words: str
) -> None:
    said = say(**body)
    problem = said.json()
    assert (said.status_code, problem["status"], problem.get("where")) == (status, status, where)
    assert said.headers["Content-Type"] == "application/problem+json"
    assert words in problem["detail"], problem


def test_another_projects_daemon_does_not_answer(daemon: Daemon, client: httpx.Client) -> None:
    for owner, status in ((daemon.journal.owner, 200), ("somebody else", 421)):
        said = client.post("/search", json={"query": "card"}, headers={"X-Ingestor-Owner": owner})
        assert said.status_code == status


def test_search_during_a_swap_succeeds(say: Say, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def collection(uuids: tuple[str, ...]) -> Any:
        calls.append(uuids)
        if len(calls) == 1:
            raise Gone("the file was deleted")
        return daemon.collections[uuids]

    monkeypatch.setattr(daemon, "collection", collection)
    with served(daemon) as client:
        assert client.post("/search", json={"query": "card"}).status_code == 200
    assert len(calls) > 1


@pytest.mark.parametrize("error", [Gone("gone"), Transient("Chroma can't be reached")])
def test_unreachable_chroma_is_reported(
    daemon: Daemon, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(uuid: str) -> Any:
        raise error

    monkeypatch.setattr(daemon, "collection", away)
    with served(daemon) as client:
        said = client.post("/search", json={"query": "card"})
    assert (said.status_code, said.headers["Retry-After"]) == (503, "1")
    assert str(error) in said.json()["detail"]


def test_missing_embedder_leaves_keyword_search(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon.embeddings, "open_stream", lambda recipe: None)
    with served(daemon) as client:
        assert client.post("/search", json={"query": "card"}).json()["where"] == "mode"
        assert client.post("/search", json={"query": "card", "mode": "lexical"}).json()["hits"]


def test_turns_beyond_the_waiting_limit_are_refused(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)

    def embed(embedding: Any, texts: Sequence[str], questions: Any) -> Vectors:
        inside.release()
        assert gate.wait(60)
        return MODEL.embed(texts)

    monkeypatch.setattr(searching, "AT_ONCE", 1)
    monkeypatch.setattr(searching, "WAITING", 1)
    statuses: list[int] = []
    with served(daemon) as client, ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(searching, "vectors_of", embed)
        for _ in range(4):
            asked = pool.submit(client.post, "/search", json={"query": "card"})
            asked.add_done_callback(lambda said: statuses.append(said.result().status_code))
        assert inside.acquire(timeout=60)
        wait(lambda: len(statuses) == 2, every=0.01)
        gate.set()
    assert sorted(statuses) == [200, 200, 429, 429]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
SMALL = st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SMALL, inner, max_size=3)
)
OPERATORS = st.sampled_from("$and $or $eq $ne $in $nin $gt $contains a chunk_index".split())  # noqa: SIM905
FILTERS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(OPERATORS, inner, max_size=2),
    max_leaves=8,
)
BODIES = st.fixed_dictionaries(
    {"query": st.text(min_size=1, max_size=30) | JSON},
    optional={
        "n": st.integers(-1, 1001) | JSON,
        "mode": st.sampled_from(MODES) | JSON,
        "expand": st.sampled_from(EXPANSIONS) | JSON,
        "collection": st.sampled_from(["docs", "", "\ud800"]) | JSON,
        "budget_tokens": st.integers(0, 100) | JSON,
        "distinct": st.booleans() | JSON,
        "where": st.dictionaries(OPERATORS, FILTERS, max_size=2) | JSON,
    },
)


@given(BODIES)
@example({"query": "a", "where": {"chunk_index": float("nan")}})
@example({"query": "\ud800"})
@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_is_a_defect(client: httpx.Client, body: dict[str, Any]) -> None:
    said = client.post("/search", content=json.dumps(body).encode())
    assert said.status_code in (200, 400, 404, 422), (body, said.text)
    if said.status_code != 200:
        assert said.json()["error"]


def test_form_fields_of_a_question_equal_the_commands() -> None:
    names = {"query", "collection", "n", "budget_tokens", "mode", "where", "expand", "distinct"}
    assert set(Question.__dataclass_fields__) == names
