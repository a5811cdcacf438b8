"""``GET /documents``, ``GET /documents/ID`` and ``GET /status`` over HTTP, with a real Chroma."""

from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.search.test_search import TEXTS
from tests.service.test_openapi import described, schema


def read(client: httpx.Client, path: str) -> Any:
    said = client.get(path)
    assert said.status_code == 200, said.text
    template = "/documents/{document}" if path.count("/") > 1 else "/documents"
    schema(template, "get", "200").validate(said.json())
    return said.json()


def test_documents_are_listed_in_pages(client: httpx.Client) -> None:
    whole = read(client, "/documents?collection=docs")
    assert [one["key"] for one in whole["documents"]] == ["code.md", "faq.md", "haus.md"]
    assert (whole["next"], whole["documents"][0]["records"]) == (None, 1)
    first = read(client, "/documents?limit=2")
    rest = read(client, f"/documents?limit=2&after={first['next']}")
    assert first["documents"] + rest["documents"] == whole["documents"]
    assert [one["key"] for one in read(client, "/documents?match=FAQ")["documents"]] == ["faq.md"]


@pytest.mark.parametrize("stretch", [1, 10, 30, 1000])
def test_document_read_in_parts_of_any_length_is_complete(client: httpx.Client, stretch: int) -> None:
    at, texts = 0, dict[str, None]()
    while at is not None:
        found = read(client, f"/documents/faq?start={at}&end={at + stretch}")
        texts |= dict.fromkeys(passage["text"] for passage in found["passages"])
        assert found["next"] is None or found["next"] > at
        at = found["next"]
    assert "\n".join(texts) == "\n".join(TEXTS["faq"])


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/documents/nothing", 404, "document"), ("/documents/%2e%2e%2fetc%2fpasswd", 404, None),
        ("/documents?collection=other", 404, "collection"), ("/documents?limit=0", 422, "limit"),
        ("/documents?limit=9999999999999999999", 422, "limit"), ("/documents/faq?start=-1", 422, "start"),
        ("/documents/faq?start=5&end=5", 422, "end"), ("/documents/faq?end=60000", 422, "end"),
        ("/documents/faq?start=%C2%B2", 422, "start"),
    ],
)  # fmt: skip
def test_mistakes_are_reported(client: httpx.Client, path: str, status: int, where: str | None) -> None:
    said = client.get(path)
    assert (said.status_code, said.json().get("where")) == (status, where), said.text


def test_status_is_short(client: httpx.Client) -> None:
    said = client.get("/status").json()
    assert said["ready"] is False
    assert sum(said["collections"]["docs"].values()) == 3
    assert Draft202012Validator({"type": "object", **described()}).is_valid(said)
