"""``GET /openapi.json``: description of the service port's addresses."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor import __version__
from ingestor.http_server.requests import json_response
from ingestor.search.values import Answer, Question
from ingestor.service.documents import MOST, PAGE
from ingestor.service.embeddings import MOST_TEXTS

_TEXT = {"type": "string"}
_PERHAPS = {"type": ["string", "null"]}
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MOST_TEXTS}]}
_REFUSAL = {
    "type": "object",
    "description": "`error` says what is wrong and what to do; `where` names the place of the mistake.",
    "properties": {
        "error": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "where": {"type": "string", "description": "the key that must be changed"},
    },
    "required": ["error"],
}
_TEI = {
    "type": "object",
    "properties": {"inputs": _TEXTS, "prompt_name": {**_PERHAPS, "description": "`document`, or none"}},
    "required": ["inputs"],
}
_OPENAI = {
    "type": "object",
    "properties": {
        "input": _TEXTS,
        "model": {**_PERHAPS, "description": "a collection"},
        "input_type": {**_PERHAPS, "description": "`document`, or none"},
        "encoding_format": {"enum": ["float", "base64"]},
        "dimensions": {"type": ["integer", "null"], "description": "those of the model"},
    },
    "required": ["input"],
}
_LIST = {
    "type": "object",
    "properties": {"data": {"type": "array"}, "model": _TEXT, "usage": {"type": "object"}},
    "required": ["object", "data", "model", "usage"],
}
_MESSAGE = {
    "type": "object",
    "description": "JSON-RPC",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["integer", "string"]},
        "method": _TEXT,
        "params": {"type": ["object", "null"]},
    },
    "required": ["jsonrpc", "id", "method"],
}
_HEALTHY = {"type": "object", "properties": {"healthy": {"type": "boolean"}}, "required": ["healthy"]}
_READY = {
    "type": "object",
    "properties": {
        **{name: {"type": "boolean"} for name in ("ready", "readable", "writable")},
        "reasons": {"type": "array", "items": _TEXT},
    },
    "required": ["ready", "readable", "writable", "reasons"],
}


_DOCUMENTS = {
    "type": "object",
    "properties": {
        "collection": _TEXT,
        "documents": {"type": "array", "items": {"type": "object", "required": ["document_id", "key"]}},
        "next": {"type": ["string", "null"], "description": "the `after` of the next page"},
    },
    "required": ["collection", "documents", "next"],
}
_DOCUMENT = {
    "type": "object",
    "properties": {
        "passages": {"type": "array", "items": {"$ref": "#/components/schemas/Passage"}},
        "next": {"type": ["integer", "null"], "description": "the `start` of the next part"},
    },
    "required": ["collection", "document_id", "source", "key", "address", "title", "passages", "next"],
}


@cache
def description() -> dict[str, Any]:
    vectors = {"type": "array", "items": _NUMBERS}
    embedder = _parameter("embedder", _TEXT, "path")
    return {
        "openapi": "3.1.0",
        "info": {"title": "ingestor", "version": __version__},
        "security": [{"token": []}, {}],
        "paths": {
            "/healthz": {"get": _without_token(_plain("Whether the engine runs", _HEALTHY, 503))},
            "/readyz": {"get": _without_token(_plain("Whether readers find what they should", _READY, 503))},
            "/metrics": {"get": _call("Metrics for Prometheus", None)},
            "/openapi.json": {"get": _call("This description", {"type": "object"})},
            "/search": {"post": _call("Search a collection", _reference("Answer"), _reference("Question"))},
            "/documents": {"get": {**_call("List documents", _DOCUMENTS), "parameters": _of_list()}},
            "/documents/{document}": {
                "get": {**_call("Read a document or a part of it", _DOCUMENT), "parameters": _of_document()}
            },
            "/status": {"get": _call("How far sources and collections are", {"type": "object"})},
            "/embed": {"post": _call("Vectors, as text-embeddings-inference", vectors, _TEI)},
            "/embed/{embedder}": {
                "post": {**_call("Vectors of one embedder", vectors, _TEI), "parameters": [embedder]}
            },
            "/mcp": {"post": _of_assistants()},
            "/v1/embeddings": {"post": _call("Vectors, in OpenAI's form", _LIST, _OPENAI)},
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def routes() -> list[BaseRoute]:
    async def openapi(request: Request) -> Response:
        return json_response(200, description())

    return [Route("/openapi.json", openapi)]


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {"Refusal": _REFUSAL}
    for model in (Question, Answer):
        schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas["Question"]["additionalProperties"] = False
    return schemas


def _parameter(name: str, schema: dict[str, Any], place: str = "query") -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _of_list() -> list[dict[str, Any]]:
    limit = {"type": "integer", "minimum": 1, "maximum": MOST, "default": PAGE}
    return [
        *(_parameter(name, _TEXT) for name in ("collection", "match", "after")),
        _parameter("limit", limit),
    ]


def _of_document() -> list[dict[str, Any]]:
    first, last = ({"type": "integer", "minimum": least} for least in (0, 1))
    named = [_parameter("document", _TEXT, "path"), _parameter("collection", _TEXT)]
    return [*named, _parameter("start", first), _parameter("end", last)]


def _of_assistants() -> dict[str, Any]:
    """Describe the call for assistants; answers and refusals are messages of the Model Context Protocol."""
    call = _call("Tools for assistants: MCP over streamable HTTP", {"type": "object"}, _MESSAGE)
    default = call["responses"]["default"]
    anything = {"application/json": {"schema": {"type": "object"}}, "text/plain": {"schema": _TEXT}}
    response = {**default, "content": {**default["content"], **anything}}
    taken = {"description": "taken; there is no answer"}
    return {**call, "responses": {**call["responses"], "202": taken, "default": response}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _call(summary: str, answer: dict[str, Any] | None, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe a call. ``answer``: None for plain text. ``body``: None if the request has no body."""
    content = {"application/json": {"schema": answer}} if answer else {"text/plain": {"schema": _TEXT}}
    refusal = {"application/json": {"schema": _reference("Refusal")}}
    request = {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}
    return {
        "summary": summary,
        **(request if body else {}),
        "responses": {
            "200": {"description": "the answer", "content": content},
            "default": {
                "description": "a refusal",
                "content": {**refusal, "application/problem+json": refusal["application/json"]},
            },
        },
    }


def _plain(summary: str, answer: dict[str, Any], *others: int) -> dict[str, Any]:
    """Describe a call whose answers have the same form for several statuses."""
    call = _call(summary, answer)
    same = {str(status): {**call["responses"]["200"], "description": "not now"} for status in others}
    return {**call, "responses": {**call["responses"], **same}}


def _without_token(call: dict[str, Any]) -> dict[str, Any]:
    """Mark a call as needing no token."""
    return {**call, "security": []}
