"""The description of the service port names every address, and real answers fit it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from ingestor.service.openapi import description
from tests.service.world import Daemon, served


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    daemon = Daemon(tmp_path)
    with served(daemon) as client:
        yield client
    daemon.close()


def schema(path: str, method: str, status: str) -> Draft202012Validator:
    found = description()["paths"][path][method]["responses"]
    content = found.get(status, found["default"])["content"]
    return Draft202012Validator({**content["application/json"]["schema"], **described()})


def described() -> dict[str, Any]:
    return {"components": description()["components"]}


def test_every_address_is_described(client: httpx.Client) -> None:
    told = client.get("/nowhere").json()["error"].removeprefix("there are ").split(", ")
    assert sorted(description()["paths"]) == told
    assert client.get("/openapi.json").json() == description()


def test_the_schemas_are_schemas() -> None:
    for each in description()["components"]["schemas"].values():
        Draft202012Validator.check_schema(each)
    text = str(description())
    for name in ("Found", "Passage", "Ranks", "Question", "Answer", "Refusal"):
        assert f"'{name}'" in text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("get", "/healthz", None),
        ("get", "/readyz", None),
        ("get", "/openapi.json", None),
        ("post", "/search", {"query": "a"}),
        ("post", "/search", {"query": ""}),
        ("post", "/embed", {}),
        ("post", "/v1/embeddings", {"input": "a"}),
    ],
)
def test_answers_fit_their_description(client: httpx.Client, method: str, path: str, body: Any) -> None:
    said = client.request(method, path, json=body)
    schema(path, method, str(said.status_code)).validate(said.json())


def test_the_limits_of_a_question_are_described() -> None:
    question = description()["components"]["schemas"]["Question"]
    assert question["properties"]["n"] == {
        "default": 5,
        "maximum": 1000,
        "minimum": 1,
        "title": "N",
        "type": "integer",
    }
    validator = Draft202012Validator({**question, **described()})
    assert validator.is_valid({"query": "a", "where": {"page": 3}, "mode": "dense"})
    assert not validator.is_valid({"query": "a", "mode": "fast"})
    assert not validator.is_valid({"query": "a", "size": 3})
