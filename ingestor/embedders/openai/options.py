"""Options of an embedding server."""

from pathlib import Path
from typing import Any

from ingestor.llm.options import ModelServer
from ingestor.registry import pinned, tuning


class OpenAIOptions(ModelServer):
    model: str = pinned(..., min_length=1, description="model, as the server names it")
    dimensions: int | None = pinned(
        None, ge=1, le=65_536, description="dimensions to request, for models that can shorten vectors"
    )
    prompt: str = pinned("", description="text before every document, as the model needs")
    query_prompt: str = pinned("", description="text before every question, as the model needs")
    parameters: dict[str, Any] = pinned(
        {}, description="further fields of every request, such as `input_type` or `truncate`"
    )
    query_parameters: dict[str, Any] = pinned(
        {}, description="other values of such fields for questions of `ingestor query`"
    )
    revision: str = pinned(
        "",
        description="change this value to re-embed everything, such as after a change of the server's model",
    )
    price: float = tuning(0.0, ge=0, description="price of a million tokens, for `plan`, `sync` and `status`")
    window: int | None = tuning(
        None,
        ge=1,
        description="tokens that the model reads; without it no chunk counts as too long",
    )
    tokenizer: Path | None = tuning(
        None,
        description="the model's `tokenizer.json` or its folder; default: tokens are counted as OpenAI's",
    )
    batch_texts: int = tuning(32, ge=1, le=2048, description="most texts in a request")
    batch_tokens: int = tuning(8192, ge=1, description="most tokens in a request; a longer text goes alone")
    requests_per_minute: int | None = tuning(None, ge=1, description="most requests a minute")
    tokens_per_minute: int | None = tuning(None, ge=1, description="most tokens a minute")
