"""The description of the service port names every address; real answers fit it; each asks for the token."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from ingestor.service.metrics import PATHS, metrics
from ingestor.service.openapi import description
from ingestor.service.situation import Situation
from tests.service.world import Daemon, served


def schema(path: str, method: str, status: str) -> Draft202012Validator:
    found = description()["paths"][path][method]["responses"]
    content = found.get(status, found["default"])["content"]
    return Draft202012Validator({**content["application/json"]["schema"], **described()})


def described() -> dict[str, Any]:
    return {"components": description()["components"]}


def test_every_address_is_described(client: httpx.Client) -> None:
    said = client.get("/nowhere")
    assert said.status_code == 404
    told = said.json()["error"].removeprefix("unknown address; known: ").split(", ")
    assert sorted(description()["paths"]) == told
    assert client.get("/openapi.json").json() == description()


def test_schemas_of_the_description_are_valid() -> None:
    for each in description()["components"]["schemas"].values():
        Draft202012Validator.check_schema(each)
    text = str(description())
    for name in ("Found", "Passage", "Ranks", "Question", "Answer", "Refusal"):
        assert f"'{name}'" in text


def test_limits_of_a_question_are_described() -> None:
    question = description()["components"]["schemas"]["Question"]
    n = {"default": 5, "maximum": 1000, "minimum": 1, "title": "N", "type": "integer"}
    assert question["properties"]["n"] == n
    validator = Draft202012Validator({**question, **described()})
    assert validator.is_valid({"query": "a", "where": {"page": 3}, "mode": "dense"})
    assert not validator.is_valid({"query": "a", "mode": "fast"})
    assert not validator.is_valid({"query": "a", "size": 3})


PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text("utf-8")
NAMES = [f"{one.name}{'_total' if one.type == 'counter' else ''}" for one in metrics(Situation())]


def test_metrics_and_addresses_are_explained() -> None:
    table = next(row for row in PAGE.split("\n\n") if "| Metric |" in row)
    assert [name for name in NAMES if f"`{name}`" not in table] == []
    paths, top = {path.split("/")[1] for path in description()["paths"]}, PAGE.partition("## ")[0]
    assert [path for path in paths if not re.search(rf"/{path}\b", top)] == []


ADDRESSES = [(method, path) for path, calls in description()["paths"].items() for method in calls]
BEARER = {"Authorization": "Bearer t0ken"}


@pytest.fixture(scope="module")
def guarded(daemon: Daemon) -> Iterator[httpx.Client]:
    with served(daemon, token="t0ken", hosts=["search.example"]) as client:
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({**BEARER, "Host": "elsewhere.example"}, 421),
        ({**BEARER, "Origin": "http://elsewhere.example"}, 403), ({**BEARER, "Origin": "null"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)  # fmt: skip
def test_request_by_a_stranger_is_refused(
    guarded: httpx.Client, headers: dict[str, str], status: int
) -> None:
    for method, path in ADDRESSES:
        said = guarded.request(method, path, headers=headers)
        if path in PATHS and status == 401:
            assert said.status_code in (200, 503)
        else:
            assert (said.status_code, "error" in said.json()) == (status, True), path


def test_configured_name_and_token_admit_a_request(guarded: httpx.Client) -> None:
    names = {**BEARER, "Host": "search.example", "Origin": "http://search.example"}
    for method, path in ADDRESSES:
        assert guarded.request(method, path, headers=names).status_code not in (401, 403, 421), path
        said = guarded.request("DELETE", path, headers=BEARER)
        assert said.status_code == 405, path
        assert method.upper() in said.headers["Allow"].split(", ")
