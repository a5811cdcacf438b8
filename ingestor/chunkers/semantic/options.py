"""Options that semantic strategies share."""

from typing import Any, Literal

from pydantic import Field, model_validator

from ingestor.chunkers.options import ChunkerOptions

_SHARE = 0.3  # of neighbours in pooled vectors


class SemanticOptions(ChunkerOptions):
    vectors: Literal["encoded", "pooled"] = Field(
        default="encoded",
        description="`encoded`: embed each chunk's text; `pooled`: pool the vectors that the cuts used",
    )

    @model_validator(mode="before")
    @classmethod
    def _pooled_vectors_are_mixed(cls, data: Any) -> Any:
        default = cls.model_fields["vectors"].default
        if isinstance(data, dict) and data.get("vectors", default) == "pooled":
            return {"neighbours": _SHARE, **data}
        return data


class GrowingOptions(SemanticOptions):
    """Options of strategies that cut wherever neighbours differ, and so need a minimum."""

    @model_validator(mode="before")
    @classmethod
    def _fit_minimum(cls, data: Any) -> Any:
        """Lower the default minimum to half of a smaller maximum."""
        least = cls.model_fields["min_tokens"].default
        most = data.get("max_tokens") if isinstance(data, dict) else None
        if isinstance(most, int) and "min_tokens" not in data and most < 2 * least:
            return {**data, "min_tokens": max(1, most // 2)}
        return data
