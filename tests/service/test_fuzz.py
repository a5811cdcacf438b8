"""Requests made from the port's own description, good and broken ones: every answer is described there."""

import importlib
import re
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingestor.service.openapi import description

LONGEST = 20.0  # seconds of an answer on a busy machine
KNOWN = {"document": "faq", "embedder": "docs"}
REFUSALS = ["400", "404", "405", "406", "413", "422", "429", "503"]
# 503 of /readyz is its answer. The SDK of MCP judges its messages itself. What no schema says: which filters
# Chroma takes, how many dimensions a model has, and that the length of a span has a limit.
EXCLUDED = {
    "/mcp": "negative_data_rejection",
    "/readyz": "not_a_server_error",
    **dict.fromkeys(("/search", "/v1/embeddings", "/documents/{document}"), "positive_data_acceptance"),
}
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in description()["paths"].items()
    for method in methods
    if method in ("get", "post", "put", "delete", "patch")
]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """Operations by method and path. The package takes a second to import, so only this process does."""
    schemathesis = pytest.importorskip("schemathesis")
    config = importlib.import_module("schemathesis.config").SchemathesisConfig.from_dict(
        {"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}}
    )
    found = schemathesis.openapi.from_dict(description(), config=config).get_all_operations()
    return {operation.label: operation for operation in (each.ok() for each in found)}


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_described(
    label: str, examples: int, client: httpx.Client, described: dict[str, Any]
) -> None:
    import schemathesis
    from schemathesis.specs.openapi import checks

    assert described.keys() == set(OPERATIONS)
    operation, name = described[label], EXCLUDED.get(label.partition(" ")[2], "")
    excluded = [getattr(checks, name, None) or getattr(schemathesis.checks, name)] if name else None

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=requests_of(operation))
    def answers(case: Any) -> None:
        said = case.call(base_url=str(client.base_url), timeout=LONGEST)
        case.validate_response(said, excluded_checks=excluded)

    answers()


def requests_of(operation: Any) -> st.SearchStrategy[Any]:
    """Requests that fit the description, those that name what exists, and those that do not fit."""
    named = {name: KNOWN[name] for name in re.findall(r"{(\w+)}", operation.path)}
    good = [operation.as_strategy()] + ([operation.as_strategy(path_parameters=named)] if named else [])
    takes = operation.body or operation.query or operation.path_parameters
    negative = importlib.import_module("schemathesis.generation").GenerationMode.NEGATIVE
    bad = [operation.as_strategy(negative)] if takes else []
    return st.one_of(*good, *bad)
