"""Options of an embedding server."""

from pathlib import Path
from typing import Any

from ingestor.llm.options import ModelServer
from ingestor.registry import pinned, tuning


class OpenAIOptions(ModelServer):
    model: str = pinned(..., min_length=1, description="as the server names it")
    dimensions: int | None = pinned(
        None, ge=1, le=65_536, description="asked of the server, for models that can shorten their vectors"
    )
    prompt: str = pinned("", description="put before every document's text, as the model wants it")
    query_prompt: str = pinned("", description="put before every question, as the model wants it")
    parameters: dict[str, Any] = pinned(
        {}, description="further fields of every request, such as `input_type` or `truncate`"
    )
    query_parameters: dict[str, Any] = pinned(
        {}, description="other values of such fields for questions; for `ingestor query` only"
    )
    revision: str = pinned(
        "",
        description="any word; another one embeds everything again, for a server whose model is another now",
    )
    price: float = tuning(
        0.0, ge=0, description="of a million tokens; `plan`, `sync` and `status` tell the cost"
    )
    window: int | None = tuning(
        None,
        ge=1,
        description="tokens that the model reads of a text; without it no chunk is called too long",
    )
    tokenizer: Path | None = tuning(
        None,
        description="the model's `tokenizer.json`, or its folder; else tokens are counted as OpenAI's are",
    )
    batch_texts: int = tuning(32, ge=1, le=2048, description="texts in a request, at most")
    batch_tokens: int = tuning(
        8192, ge=1, description="tokens in a request, at most; a longer text goes alone"
    )
    requests_per_minute: int | None = tuning(None, ge=1, description="not more are sent")
    tokens_per_minute: int | None = tuning(None, ge=1, description="not more are sent")
