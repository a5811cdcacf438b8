"""Who may ask: the rules hold for every address that the description names."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ingestor.service.health import PATHS
from ingestor.service.openapi import description
from tests.service.world import Daemon, served

ADDRESSES = [(method, path) for path, calls in description()["paths"].items() for method in calls]
BEARER = {"Authorization": "Bearer t0ken"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    daemon = Daemon(Path(tmp_path_factory.mktemp("daemon")))
    with served(daemon, token="t0ken", hosts=["search.example"]) as client:
        yield client
    daemon.close()


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**BEARER, "Host": "elsewhere.example"}, 421),
        ({**BEARER, "Origin": "http://elsewhere.example"}, 403),
        ({**BEARER, "Origin": "null"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_request_by_a_stranger_is_refused(
    client: httpx.Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    said = client.request(method, path, headers=headers)
    if path in PATHS and status == 401:
        assert said.status_code in (200, 503)
    else:
        assert (said.status_code, "error" in said.json()) == (status, True)


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_a_name_of_the_config_and_the_token_open_it(client: httpx.Client, method: str, path: str) -> None:
    names = {**BEARER, "Host": "search.example", "Origin": "http://search.example"}
    assert client.request(method, path, headers=names).status_code not in (401, 403, 421)


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_other_methods_are_refused_with_those_that_are_taken(
    client: httpx.Client, method: str, path: str
) -> None:
    said = client.request("DELETE", path, headers=BEARER)
    assert said.status_code == 405
    assert method.upper() in said.headers["Allow"].split(", ")
