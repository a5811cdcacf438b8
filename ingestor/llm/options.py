"""Which server of models with OpenAI's API to ask, and how. Pure."""

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
        raise ValueError("must be an address alone; a key belongs in api_key")
    return url.rstrip("/").removesuffix("/chat/completions").removesuffix("/embeddings")


class ModelServer(Options):
    """Where to ask. ``base_url`` is no part of a recipe: a model may move."""

    base_url: Annotated[str, AfterValidator(_address)] = tuning(
        ..., description="of an OpenAI-compatible server, usually ending in `/v1`"
    )
    api_key: SecretStr | None = tuning(
        None, description="a secret: `${VAR}` or `file:/path` keep it out of the file"
    )
    timeout: Duration = tuning(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="for an answer, from the first byte sent to the last received",
    )
    retries: int = tuning(
        4, ge=0, le=20, description="after no answer, a 429 or a 5xx; then the document waits its turn again"
    )
    concurrency: int = tuning(4, ge=1, le=64, description="requests under way at the same time")


class Endpoint(ModelServer):
    """Which model to ask, and where."""

    model: str = Field(min_length=1, description="as the server names it; another name asks everything again")
    answer_tokens: int = Field(
        default=1000, ge=1, description="the longest answer; one cut off by it does not count"
    )
    parameters: dict[str, Any] = Field(
        default={},
        description="further fields of every request, such as `response_format`; `null` leaves out one of "
        "`temperature` (0), `seed` (0) and `max_tokens` (`answer_tokens`)",
    )
    prompt_price: float = tuning(
        0.0,
        ge=0,
        description="of a million tokens that the model reads; `plan`, `sync` and `evaluate` reckon with it",
    )
    answer_price: float = tuning(0.0, ge=0, description="of a million tokens that it writes")
