"""Serves ``GET /openapi.json``: a description of all addresses of the service port."""

from collections.abc import Sequence
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

Schema = dict[str, Any]


def _object(required: str, **properties: Schema) -> Schema:
    """Return the schema of an object. ``required``: its mandatory keys, separated by spaces."""
    return {"type": "object", "properties": properties, "required": required.split()}


def _nullable(kind: str, description: str = "") -> Schema:
    return {"type": [kind, "null"], **({"description": description} if description else {})}


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_PURPOSE = _nullable("string", "`document` for texts of documents; else they are questions")
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MOST_TEXTS}]}
_REFUSAL = {
    **_object(
        "error", error=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT,
        where={**_TEXT, "description": "the key that must be changed"},
    ),
    "description": "`error` says what is wrong and what to do; `where` names the place of the mistake.",
}  # fmt: skip
_TEI = _object("inputs", inputs=_TEXTS, prompt_name=_PURPOSE)
_OPENAI = _object(
    "input",
    input=_TEXTS,
    model=_nullable("string", "name of a collection; its embedder is used"),
    input_type=_PURPOSE,
    encoding_format={"enum": ["float", "base64"]},
    dimensions=_nullable("integer", "must be the model's number of dimensions"),
)
_LIST = _object("object data model usage", data={"type": "array"}, model=_TEXT, usage={"type": "object"})
_MESSAGE = {
    **_object(
        "jsonrpc id method", jsonrpc={"const": "2.0"}, id={"type": ["integer", "string"]}, method=_TEXT,
        params=_nullable("object"),
    ),
    "description": "a message of JSON-RPC",
}  # fmt: skip
_HEALTHY = _object("healthy", healthy=_FLAG)
_FLAGS = {"ready": _FLAG, "readable": _FLAG, "writable": _FLAG}
_READY = _object("ready readable writable reasons", **_FLAGS, reasons={"type": "array", "items": _TEXT})
_DOCUMENTS = _object(
    "collection documents next",
    collection=_TEXT,
    documents={"type": "array", "items": {"type": "object", "required": ["document_id", "key"]}},
    next=_nullable("string", "the `after` of the next page"),
)
_DOCUMENT = _object(
    "collection document_id source key address title passages next",
    passages={"type": "array", "items": {"$ref": "#/components/schemas/Passage"}},
    next=_nullable("integer", "the `start` of the next part"),
)


@cache
def description() -> Schema:
    """Return the description of the service port as an OpenAPI 3.1 document."""
    vectors = {"type": "array", "items": _NUMBERS}
    collection, embedder = _parameter("collection", _TEXT), _parameter("embedder", _TEXT, "path")
    limit = {"type": "integer", "minimum": 1, "maximum": MOST, "default": PAGE}
    listing = [collection, _parameter("match", _TEXT), _parameter("after", _TEXT), _parameter("limit", limit)]
    first, last = ({"type": "integer", "minimum": least} for least in (0, 1))
    reading = [_parameter("document", _TEXT, "path"), collection]
    reading += [_parameter("start", first), _parameter("end", last)]
    schemas: Schema = {"Refusal": _REFUSAL}
    for model in (Question, Answer):
        schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas["Question"]["additionalProperties"] = False
    return {
        "openapi": "3.1.0",
        "info": {"title": "ingestor", "version": __version__},
        "security": [{"token": []}, {}],
        "paths": {
            "/healthz": {"get": _probe("Whether the engine runs", _HEALTHY)},
            "/readyz": {"get": _probe("Whether collections are complete and searchable", _READY)},
            "/metrics": {"get": _call("Metrics for Prometheus", None)},
            "/openapi.json": {"get": _call("This description", {"type": "object"})},
            "/search": {"post": _call("Search a collection", _reference("Answer"), _reference("Question"))},
            "/documents": {"get": _call("List documents", _DOCUMENTS, None, listing)},
            "/documents/{document}": {
                "get": _call("Read a document or a part of it", _DOCUMENT, None, reading)
            },
            "/status": {"get": _call("State of sources and collections", {"type": "object"})},
            "/embed": {"post": _call("Vectors, as text-embeddings-inference", vectors, _TEI)},
            "/embed/{embedder}": {"post": _call("Vectors of one embedder", vectors, _TEI, [embedder])},
            "/mcp": {"post": _of_assistants()},
            "/v1/embeddings": {"post": _call("Vectors, in OpenAI's form", _LIST, _OPENAI)},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def routes() -> list[BaseRoute]:
    async def openapi(request: Request) -> Response:
        return json_response(200, description())

    return [Route("/openapi.json", openapi)]


def _parameter(name: str, schema: Schema, place: str = "query") -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _of_assistants() -> Schema:
    """Describe ``/mcp``, whose responses and refusals are messages of the Model Context Protocol."""
    call = _call("Tools for assistants: MCP over streamable HTTP", {"type": "object"}, _MESSAGE)
    default = call["responses"]["default"]
    anything = {"application/json": {"schema": {"type": "object"}}, "text/plain": {"schema": _TEXT}}
    response = {**default, "content": {**default["content"], **anything}}
    taken = {"description": "taken; there is no answer"}
    return {**call, "responses": {**call["responses"], "202": taken, "default": response}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _call(
    summary: str, answer: Schema | None, body: Schema | None = None, parameters: Sequence[Schema] = ()
) -> Schema:
    """Describe an address and its responses.

    ``answer``: schema of the response; None for plain text. ``body``: schema of the request's body; None if
    it has none. ``parameters``: of the path and the query.
    """
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
        **({"parameters": parameters} if parameters else {}),
    }


def _probe(summary: str, answer: Schema) -> Schema:
    """Describe an address that needs no token, and whose responses have one schema with 200 and 503."""
    call = _call(summary, answer)
    later = {**call["responses"]["200"], "description": "not now"}
    return {**call, "responses": {**call["responses"], "503": later}, "security": []}
