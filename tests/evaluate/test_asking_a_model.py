"""``ingestor evaluate --ask-model`` as a person runs it, with a server that follows a script."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.endpoint import Endpoint, Reply, refused, said, serving
from tests.evaluate.scripted_model import model, set_language_model

WORDS = ("--ask-model", "--make", "30", "--strategies", "configured,fixed:size=200", "--json")


def test_questions_are_written_kept_counted_and_requested_once(
    ask: Ask, endpoint: Endpoint, tmp_path: Path
) -> None:
    expected = answered(ask("evaluate", *WORDS, "--estimate"))
    assert endpoint.calls == 0
    file = tmp_path / "questions.csv"
    first = ask("evaluate", *WORDS, "--keep-questions", str(file))
    found = answered(first)
    assert "language model scripted: about 30 requests" in first.err
    questions, sent = found["questions"], found["language_model"]
    assert questions["origin"] == "model"
    assert questions["count"] + len(questions["refused"]) == 30
    assert questions["count"] >= 20
    assert sent["calls"] == endpoint.calls
    assert sent["cost"] == pytest.approx(endpoint.calls * (10 * 2 + 2 * 10) / 1e6)
    assert sent["expected"] == expected
    assert (expected["model"], expected["calls"]) == ("scripted", 30)
    assert expected["cost"] == pytest.approx(
        (expected["prompt_tokens"] * 2 + expected["answer_tokens"] * 10) / 1e6
    )
    assert "written by a language model" in found["recommendation"]["text"]
    with file.open(encoding="utf-8", newline="") as stream:
        assert {row["origin"] for row in csv.DictReader(stream)} == {"model"}
    again = answered(ask("evaluate", *WORDS))
    assert (again["questions"], again["language_model"]["calls"]) == (questions, 0)
    assert answered(ask("evaluate", *WORDS, "--estimate"))["calls"] == 0
    from_file = answered(ask("evaluate", "--questions", str(file), *WORDS[3:]))
    assert from_file["questions"] == {"count": questions["count"], "origin": "model", "refused": []}
    assert from_file["strategies"][0]["recall"] == found["strategies"][0]["recall"]
    assert from_file["language_model"] is None


def test_interrupted_run_resumes(samples: Project, ask: Ask) -> None:
    """The server stops to answer after ten questions; what it answered before is not asked again."""
    asked = list[str]()

    def tired(body: dict[str, object]) -> Reply:
        asked.append(json.dumps(body["messages"]))
        return model(body) if len(asked) <= 10 else refused(401, "no more")

    with serving(tired) as endpoint:
        set_language_model(samples, endpoint.base_url)
        broken = ask("evaluate", *WORDS)
        assert broken.code == 4, broken
        assert "no more; check `api_key`" in broken.err
    answered_before = set(asked[:10])
    with serving(model) as endpoint:
        set_language_model(samples, endpoint.base_url)
        assert answered(ask("evaluate", *WORDS))["questions"]["count"] >= 20
        assert not answered_before & {json.dumps(body["messages"]) for body in endpoint.bodies}


def test_model_without_useful_questions_is_reported(samples: Project, ask: Ask) -> None:
    with serving(lambda body: Reply(body=b'{"choices": [{"message": {"content": "no"}}]}')) as endpoint:
        set_language_model(samples, endpoint.base_url)
        answer = ask("evaluate", "--ask-model", "--make", "2")
    assert answer.code == 2, answer
    assert (
        "wrote no question that can be used: no valid answer of the model: the answer is not a JSON"
        in answer.err
    )


def splits(body: dict[str, Any]) -> Reply:
    """Half of the pieces of a window are a chunk."""
    task, asked = (message["content"] for message in body["messages"])
    assert "You divide a text into chunks" in task
    return said(f"split_after: {max(1, asked.count('<start_chunk_') // 2)}")


@pytest.mark.slow
def test_strategy_with_a_language_model_has_its_price_before_and_after(
    samples: Project, ask: Ask, tmp_path: Path
) -> None:
    """By the language model of the config; what it costs is told from the cache as well."""
    words = ("--strategies", "recursive:size=100,llm:window=400", "--make", "30")
    with serving(splits) as endpoint:
        set_language_model(samples, endpoint.base_url)
        expected = answered(ask("evaluate", *words, "--estimate", "--json"))
        assert endpoint.calls == 0
        found = answered(ask("evaluate", *words, "--json"))
        calls = endpoint.calls
        again = ask("evaluate", *words, "--html", str(tmp_path / "page.html"))
        assert endpoint.calls == calls
    plain, asking = (each["collection"]["language_model"] for each in found["strategies"])
    assert plain is None
    assert asking["calls"] == calls > 10
    assert asking["cost"] == pytest.approx(
        (asking["prompt_tokens"] * 2 + asking["answer_tokens"] * 10) / 1e6, abs=1e-6
    )
    assert found["strategies"][1]["collection"]["cost"] == pytest.approx(asking["cost"], abs=1e-4)
    sent = found["language_model"]
    assert (sent["calls"], sent["expected"]) == (calls, expected)
    for key in ("calls", "prompt_tokens", "cost"):  # answers decide where a window ends, and so the next one
        assert asking[key] / 2 < expected[key] < asking[key] * 2, key
    assert f"language model scripted: about {expected['calls']} requests" not in again.err  # nothing is left
    assert re.search(rf"^strategy .* requests +read +written +price\n.*\nllm\S* .* {calls} ", again.out, re.M)
    assert "Requests to a language model" in (tmp_path / "page.html").read_text("utf-8")
    assert yaml.safe_load(found["recommendation"]["yaml"])["chunking"]["strategy"] == "recursive"
