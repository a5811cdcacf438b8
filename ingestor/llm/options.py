"""Options of a server of models with OpenAI's API, such as its address. Pure."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from ingestor.registry import Options, tuning
from ingestor.units import Duration


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("must be an address such as https://api.example.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone: put a key into `api_key`")
    return url.rstrip("/").removesuffix("/chat/completions").removesuffix("/embeddings")


class ModelServer(Options):
    """Options of a server. ``base_url`` is no part of a recipe, because a model may move."""

    base_url: Annotated[str, AfterValidator(_address)] = tuning(
        ..., description="address of an OpenAI-compatible server, usually ending in `/v1`"
    )
    api_key: SecretStr | None = tuning(None, description="API key")
    timeout: Duration = tuning(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="time limit of one request, from the first byte sent to the last received",
    )
    retries: int = tuning(
        4,
        ge=0,
        le=20,
        description="repeats of a request after no answer, 429 or 5xx; then the document is retried later",
    )
    concurrency: int = tuning(4, ge=1, le=64, description="requests in flight at the same time")


class Endpoint(ModelServer):
    """Options of a language model and of the server that runs it."""

    model: str = Field(
        min_length=1, description="model, as the server names it; a changed name repeats every request"
    )
    answer_tokens: int = Field(
        default=1000, ge=1, description="longest answer; a truncated answer does not count"
    )
    parameters: dict[str, Any] = Field(
        default={},
        description="further fields of every request, such as `response_format`; `null` leaves out "
        "`temperature` (0), `seed` (0) or `max_tokens` (`answer_tokens`)",
    )
    prompt_price: float = tuning(
        0.0,
        ge=0,
        description="price of a million prompt tokens, for `plan`, `sync` and `evaluate`",
    )
    answer_price: float = tuning(0.0, ge=0, description="price of a million answer tokens")
