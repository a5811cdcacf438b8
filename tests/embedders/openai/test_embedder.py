"""A real server that does as its script says. tests/llm holds what is true of every model's server."""

import json
import threading
import time
from typing import Any

import numpy as np
import pytest

from ingestor.core.errors import Stopped
from ingestor.embedders import openai
from ingestor.embedders.openai import OpenAIEmbedder, OpenAIOptions
from ingestor.ports import BadDocument, Loadable, NeedsHuman, Remote, Transient
from tests.endpoint import (
    KEY,
    Endpoint,
    Reply,
    Script,
    embedded,
    embedding,
    in_turn,
    refused,
    serving,
    vector,
)
from tests.serving import free_port
from tests.waiting import LONG

TEXTS = [f"text number {n}" for n in range(10)]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time."""
    found: list[float] = []

    def wait(stop: threading.Event, seconds: float) -> None:
        found.extend([seconds] if seconds > 0 else [])

    monkeypatch.setattr(openai, "_wait", wait)
    return found


def built(base_url: str, **more: Any) -> OpenAIEmbedder:
    options = {"base_url": base_url, "model": "tiny", "api_key": KEY, "concurrency": 1, "retries": 2, **more}
    return OpenAIEmbedder(OpenAIOptions.model_validate(options))


def ask(script: Script, texts: list[str] = TEXTS, **more: Any) -> tuple[list[Any], Endpoint]:
    """The answer for each text: a vector or an error."""
    with serving(script) as endpoint:
        answered = built(endpoint.base_url, **more).embed_each(texts, threading.Event())
    return list(answered.vectors), endpoint


def expected(text: str) -> np.ndarray[Any, Any]:
    exact = np.array(vector(text))
    return np.float16(exact / np.linalg.norm(exact)).astype(np.float32)


def sound(rows: list[Any], texts: list[str] = TEXTS) -> bool:
    return all(np.array_equal(row, expected(text)) for text, row in zip(texts, rows, strict=True))


# --- what is asked and answered ------------------------------------------------------------------------


def test_request_has_model_input_and_key() -> None:
    rows, endpoint = ask(embedding)
    assert sound(rows)
    assert endpoint.paths == ["/v1/embeddings"]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert endpoint.bodies == [{"model": "tiny", "input": TEXTS, "encoding_format": "float"}]


def test_prompts_and_parameters_of_documents_and_questions() -> None:
    more = {
        "prompt": "passage: ", "query_prompt": "query: ", "dimensions": 4,
        "parameters": {"input_type": "document", "truncate": True, "encoding_format": None},
        "query_parameters": {"input_type": "query"},
    }  # fmt: skip
    with serving(embedding) as endpoint:
        embedder = built(endpoint.base_url, **more)
        assert embedder.embed(["x"]).shape == (1, 4)
        embedder.embed_queries(["x"])
    assert endpoint.bodies == [
        {
            "model": "tiny",
            "input": ["passage: x"],
            "dimensions": 4,
            "input_type": "document",
            "truncate": True,
        },
        {"model": "tiny", "input": ["query: x"], "dimensions": 4, "input_type": "query", "truncate": True},
    ]


def test_batches_by_count_and_by_tokens() -> None:
    _, endpoint = ask(embedding, batch_texts=4)
    assert [len(body["input"]) for body in endpoint.bodies] == [4, 4, 2]
    _, endpoint = ask(
        embedding, ["word" + " word" * 30, "word", "word", "word" + " word" * 10], batch_tokens=12
    )
    assert [len(body["input"]) for body in endpoint.bodies] == [1, 2, 1]


@pytest.mark.parametrize(("concurrency", "batch_texts"), [(1, 3), (3, 3), (16, 1)])
def test_vectors_are_those_of_their_texts_whatever_is_parallel(concurrency: int, batch_texts: int) -> None:
    """Answers come back in the reverse order of their requests."""

    def script(body: dict[str, Any]) -> Reply:
        time.sleep(0.01 * (10 - int(body["input"][0].split()[-1])) / 10)
        return embedding(body)

    rows, _ = ask(script, concurrency=concurrency, batch_texts=batch_texts)
    assert sound(rows)


def test_requests_are_sent_in_parallel_and_no_more_than_allowed() -> None:
    under_way, most, all_here = 0, 0, threading.Barrier(3, timeout=LONG)
    lock = threading.Lock()

    def script(body: dict[str, Any]) -> Reply:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        all_here.wait()  # breaks unless three are under way
        with lock:
            under_way -= 1
        return embedding(body)

    rows, endpoint = ask(script, TEXTS[:9], batch_texts=1, concurrency=3)
    assert sound(rows, TEXTS[:9])
    assert (endpoint.calls, most) == (9, 3)


def test_dimensions_are_determined_once_by_one_word() -> None:
    with serving(embedding) as endpoint:
        embedder = built(endpoint.base_url)
        assert (embedder.dimensions, embedder.dimensions) == (8, 8)
        assert embedder.embed([]).shape == (0, 8)
    assert [body["input"] for body in endpoint.bodies] == [["word"]]


def test_configured_dimensions_need_no_request() -> None:
    embedder = built(f"http://127.0.0.1:{free_port()}/v1", dimensions=8)
    assert embedder.dimensions == 8
    assert embedder.identity
    assert embedder.count(["two words"]) == [2]


def test_tokens_are_counted_as_the_server_does() -> None:
    with serving(lambda body: embedded([vector(text) for text in body["input"]], tokens=100)) as endpoint:
        answered = built(endpoint.base_url, batch_texts=4).embed_each(TEXTS, threading.Event())
    assert answered.tokens == 300


def test_tokens_without_server_count_are_unknown() -> None:
    def script(body: dict[str, Any]) -> Reply:
        data = [{"embedding": vector(text)} for text in body["input"]]
        return Reply(body=json.dumps({"data": data}).encode())

    with serving(script) as endpoint:
        assert built(endpoint.base_url).embed_each(TEXTS, threading.Event()).tokens is None


# --- a server that misbehaves --------------------------------------------------------------------------

PASSING = {
    "429 that says when": (refused(429, "slow down", retry_after="3"), [3.0, 3.0]),  # itself, and all others
    "JSON of another kind": (Reply(body=b'{"choices": []}'), [1.0]),
    "too few": (embedded([vector("x")] * 9), [1.0]),
    "too many": (embedded([vector("x")] * 11), [1.0]),
    "of different lengths": (embedded([vector("x")] * 9 + [vector("x", 5)]), [1.0]),
    "too long": (Reply(body=b" " * 20_000_000), [1.0]),
}


@pytest.mark.parametrize("name", PASSING)
def test_passing_fault_is_retried(name: str, waits: list[float]) -> None:
    reply, expected_waits = PASSING[name]
    first = [reply]
    rows, endpoint = ask(lambda body: first.pop() if first else embedding(body))
    assert sound(rows)
    assert endpoint.calls == 2
    assert [round(wait) for wait in waits] == expected_waits


@pytest.mark.parametrize("name", PASSING)
def test_lasting_fault_is_transient_for_all_texts(name: str) -> None:
    rows, endpoint = ask(in_turn([PASSING[name][0]]))
    assert {type(row) for row in rows} == {Transient}
    assert endpoint.calls == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refused(401, "no such key"), "(401): no such key; check `api_key`"),
        (refused(429, "you have no money", code="insufficient_quota"), "you have no money"),
        (refused(400, "dimensions are not supported"), "(400): dimensions are not supported"),
    ],
)
def test_refused_request_needs_a_person(reply: Reply, words: str) -> None:
    rows, endpoint = ask(in_turn([reply]))
    assert {type(row) for row in rows} == {NeedsHuman}
    assert words in str(rows[0])
    assert endpoint.calls <= 2


def picky(status: int, message: str = "no", most: int = 99, bad: str = "poison") -> Script:
    """Takes so many texts at once, and none with a certain word in it."""

    def script(body: dict[str, Any]) -> Reply:
        texts = body["input"]
        if len(texts) > most or any(bad in text for text in texts):
            return refused(status, message)
        return embedding(body)

    return script


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "this text is not allowed"),
        (413, "payload too large"),
        (422, "inputs must have less than 512 tokens"),
        (500, "input (702 tokens) is too large to process. increase the physical batch size"),  # llama.cpp
    ],
)
def test_bad_text_among_many_is_isolated(status: int, message: str) -> None:
    texts = [*TEXTS[:3], "a poison", *TEXTS[3:]]
    rows, endpoint = ask(picky(status, message), texts)
    assert isinstance(rows[3], BadDocument)
    assert message in str(rows[3])
    assert sound(rows[:3] + rows[4:])
    assert [len(body["input"]) for body in endpoint.bodies] == [11, 1, 6, 3, 3, 2, 1, 1, 1, 5]


def test_batch_that_is_too_large_is_halved() -> None:
    rows, endpoint = ask(picky(413, most=3))
    assert sound(rows)
    assert [len(body["input"]) for body in endpoint.bodies] == [10, 1, 5, 3, 2, 5, 3, 2]


@pytest.mark.parametrize("numbers", [[0.0] * 8, [float("nan")] * 8, [None] * 8])
def test_text_without_a_vector_is_requested_alone_and_then_bad(numbers: list[Any]) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return embedded([numbers if "poison" in text else vector(text) for text in body["input"]])

    rows, endpoint = ask(script, [*TEXTS, "poison"])
    assert isinstance(rows[-1], BadDocument)
    assert sound(rows[:-1])
    assert [len(body["input"]) for body in endpoint.bodies] == [11, 1, 1]


def test_answer_of_zeros_is_transient_for_all_texts() -> None:
    rows, endpoint = ask(lambda body: embedded([[0.0] * 8 for _ in body["input"]]))
    assert {type(row) for row in rows} == {Transient}
    assert endpoint.calls == 2


def test_vectors_of_other_dimensions_than_requested_are_refused() -> None:
    rows, _ = ask(lambda body: embedded([vector(text, 5) for text in body["input"]]), dimensions=8)
    assert isinstance(rows[0], NeedsHuman)
    assert "returned vectors of 5 dimensions, not of 8" in str(rows[0])


def test_vectors_of_other_dimensions_than_before_are_refused() -> None:
    with serving(embedding) as endpoint:
        embedder = built(endpoint.base_url)
        embedder.embed(["x"])
        embedder._sender._learned["dimensions"] = 5  # as if the server had been another one
        with pytest.raises(Transient, match="returned vectors of 8 dimensions, but of 5 before"):
            embedder.embed(["x"])


def test_failing_lane_leaves_the_others() -> None:
    def script(body: dict[str, Any]) -> Reply:
        return refused(503, "busy") if TEXTS[0] in body["input"] else embedding(body)

    rows, _ = ask(script, batch_texts=2, concurrency=3)
    assert [type(row) for row in rows[:2]] == [Transient, Transient]
    assert sound(rows[2:], TEXTS[2:])


# --- limits, ends and secrets --------------------------------------------------------------------------


def test_limits_of_a_minute_hold_for_every_request(waits: list[float]) -> None:
    _, endpoint = ask(embedding, TEXTS[:4], batch_texts=1, requests_per_minute=2)
    assert endpoint.calls == 4
    assert waits == [pytest.approx(wait, abs=29) for wait in (60, 60)]  # a busy machine waits less
    waits.clear()
    ask(embedding, TEXTS[:4], batch_texts=1, tokens_per_minute=5)  # each has four
    assert waits == [pytest.approx(wait, abs=29) for wait in (60, 120, 180)]


def test_end_of_the_program_leaves_slow_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    stop, arrived = threading.Event(), threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        arrived.set()
        return Reply(hang=True)

    def end() -> None:
        arrived.wait(LONG)
        stop.set()

    with serving(script) as endpoint:
        threading.Thread(target=end).start()
        with pytest.raises(Stopped):
            built(endpoint.base_url, timeout=600).embed_each(TEXTS, stop)


# --- what it is made of --------------------------------------------------------------------------------


def test_model_is_remote_and_not_loadable_by_readers() -> None:
    """Chroma's own function for OpenAI needs a package and a key, and fails at once where one is missing."""
    embedder = built("http://127.0.0.1:9/v1")
    assert isinstance(embedder, Remote)
    assert not isinstance(embedder, Loadable)


def test_window_is_that_of_the_model_or_the_option() -> None:
    assert built("http://a/v1", model="text-embedding-3-small").window == 8191
    assert built("http://a/v1").window > 10**9
    assert built("http://a/v1", window=512).window == 512


@pytest.fixture
def tokenizer(tmp_path: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_tokens_by_the_models_own_tokenizer(tokenizer: Any) -> None:
    text = "antidisestablishmentarianism, said he"
    for place in (tokenizer, tokenizer / "tokenizer.json"):
        assert built("http://a/v1", tokenizer=place, prompt="a: ").count([text]) == [6]
    assert built("http://a/v1").count([text])[0] > 6


def test_tokenizer_that_is_not_there(tmp_path: Any) -> None:
    with pytest.raises(NeedsHuman, match="there is no tokenizer"):
        built("http://a/v1", tokenizer=tmp_path).count(["x"])
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(NeedsHuman, match="can't be read"):
        built("http://a/v1", tokenizer=tmp_path).count(["x"])
