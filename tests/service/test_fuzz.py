"""Requests made from the port's own description, good and broken ones: every answer is described there."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingestor.service.openapi import description
from tests.search.test_search import TEXTS
from tests.service.test_searching import chroma as chroma
from tests.service.test_searching import daemon as daemon
from tests.service.world import Daemon, note_documents, served

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.config import SchemathesisConfig  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    negative_data_rejection,
    positive_data_acceptance,
)

LONGEST = 20.0  # seconds of an answer on a busy machine
KNOWN = {"document": "faq", "embedder": "docs"}
REFUSALS = ["400", "404", "405", "406", "413", "422", "429", "503"]
CONFIG = SchemathesisConfig.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}}
)
OPERATIONS = [
    found.ok() for found in schemathesis.openapi.from_dict(description(), config=CONFIG).get_all_operations()
]
# 503 of /readyz is its answer. The SDK of MCP judges its messages itself. What no schema says: which filters
# Chroma takes, how many dimensions a model has, and that the length of a span has a limit.
EXCLUDED = {
    "/mcp": [negative_data_rejection],
    "/readyz": [schemathesis.checks.not_a_server_error],
    **{path: [positive_data_acceptance] for path in ("/search", "/v1/embeddings", "/documents/{document}")},
}


@pytest.fixture(scope="module")
def address(daemon: Daemon) -> Iterator[str]:
    note_documents(daemon, TEXTS)
    with served(daemon) as client:
        yield str(client.base_url)


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_answer_is_described(operation: Any, examples: int, address: str) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=requests_of(operation))
    def answers(case: Any) -> None:
        said = case.call(base_url=address, timeout=LONGEST)
        case.validate_response(said, excluded_checks=EXCLUDED.get(operation.path))

    answers()


def requests_of(operation: Any) -> st.SearchStrategy[Any]:
    """Requests that fit the description, those that name what exists, and those that do not fit."""
    named = {name: KNOWN[name] for name in re.findall(r"{(\w+)}", operation.path)}
    good = [operation.as_strategy()] + ([operation.as_strategy(path_parameters=named)] if named else [])
    takes = operation.body or operation.query or operation.path_parameters
    bad = [operation.as_strategy(GenerationMode.NEGATIVE)] if takes else []
    return st.one_of(*good, *bad)
