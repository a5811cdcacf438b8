"""Embeds texts for other programs, by two common APIs.

``POST /embed`` is the API of text-embeddings-inference, ``POST /v1/embeddings`` that of OpenAI. Texts are
embedded as questions, unless the request declares them as documents. Questions are embedded before documents.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.core.errors import Stopped
from ingestor.engine.embedding import Busy, Embedding
from ingestor.http_server.requests import RequestRefused, json_response, read_object
from ingestor.model import Vectors
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.service.daemon_view import DaemonView
from ingestor.state.editions import all_editions

MOST_TEXTS = 256  # of a request
MOST_BYTES = 2_000_000  # of a request


def routes(daemon: DaemonView) -> list[BaseRoute]:
    async def embed(request: Request) -> Response:
        """Embed the texts of a request, by the API of text-embeddings-inference."""
        asked = await read_object(request, MOST_BYTES)
        texts = _texts(asked.get("inputs"), "inputs")
        questions = _text(asked, "prompt_name") != "document"
        embedding = _choose(daemon, request.path_params.get("embedder"))
        vectors = await run_sync(vectors_of, embedding, texts, questions)
        return json_response(200, vectors.tolist())

    async def openai(request: Request) -> Response:
        asked = await read_object(request, MOST_BYTES)
        texts = _texts(asked.get("input"), "input")
        form = asked.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise RequestRefused(400, "`encoding_format` must be float or base64")
        model, questions = _text(asked, "model"), _text(asked, "input_type") != "document"
        embedding = _choose(daemon, model, strict=False)
        vectors = await run_sync(vectors_of, embedding, texts, questions)
        if asked.get("dimensions") not in (None, vectors.shape[1]):
            raise RequestRefused(400, f"`dimensions` must be {vectors.shape[1]}, or be omitted")
        tokens = await run_sync(embedding.count, texts)
        packed = [b64encode(np.asarray(vector, "<f4").tobytes()).decode() for vector in vectors]
        shown = packed if form == "base64" else vectors.tolist()
        data = [{"object": "embedding", "index": n, "embedding": each} for n, each in enumerate(shown)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": model or "default", "usage": usage}
        return json_response(200, answer)

    return [
        Route("/embed", embed, methods=["POST"]),
        Route("/embed/{embedder}", embed, methods=["POST"]),
        Route("/v1/embeddings", openai, methods=["POST"]),
    ]


def _texts(given: object, key: str) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not (isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)):
        raise RequestRefused(422, f"`{key}` must be a text or a list of texts")
    if len(texts) > MOST_TEXTS:
        raise RequestRefused(413, f"`{key}` has too many texts: send {MOST_TEXTS} at most")
    return texts


def _text(asked: Mapping[str, Any], key: str) -> str | None:
    """Return the text under a key of the request, or None if the key is missing.

    Raises RequestRefused if the value is not a text.
    """
    value = asked.get(key)
    if value is None or isinstance(value, str):
        return value
    raise RequestRefused(422, f"`{key}` must be a text")


def _choose(daemon: DaemonView, wanted: str | None, *, strict: bool = True) -> Embedding:
    """Find the embedder for a request. Raises RequestRefused if there is none.

    ``wanted``: name of a collection, or fingerprint of an embedder; None accepts the embedder of any
    collection. ``strict``: whether to refuse an unknown name, instead of using the embedder of any
    collection.
    """
    if wanted and (embedding := daemon.embeddings.open_stream(wanted)):
        return embedding
    recipes = {
        str(one.serves): one.embedder
        for one in all_editions(daemon.journal)
        if one.role == "live" and one.embedder
    }
    known = [recipe for serves, recipe in recipes.items() if wanted in (None, serves)]
    open_ones = map(daemon.embeddings.open_stream, known if known or strict else recipes.values())
    if embedding := next((one for one in open_ones if one), None):
        return embedding
    what = (
        f"no collection or embedder {wanted[:100]!r} is served" if wanted else "no collection is served yet"
    )
    raise RequestRefused(
        404 if wanted else 503, f"{what}: open the collection again, or try again in a moment"
    )


def vectors_of(embedding: Embedding, texts: Sequence[str], questions: bool) -> Vectors:
    """Embed texts as questions or as documents. Raises RequestRefused if that is impossible now."""
    try:
        return embedding.ask(texts, questions=questions)
    except Busy as error:
        raise RequestRefused(429, str(error), {"Retry-After": "1"}) from error
    except BadDocument as error:
        raise RequestRefused(422, str(error)) from error
    except Stopped:
        raise RequestRefused(503, "the daemon is stopping: try again later", {"Retry-After": "10"}) from None
    except (Transient, NeedsHuman) as error:
        raise RequestRefused(503, str(error), {"Retry-After": "10"}) from error
