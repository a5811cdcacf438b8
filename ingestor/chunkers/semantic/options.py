"""The option that all semantic strategies share."""

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
