"""Options that all chunkers share. The pipeline applies ``context`` and ``neighbours``, not the chunker."""

from pydantic import Field, model_validator

from ingestor.registry import Options
from ingestor.text.context import Context
from ingestor.text.limits import SMALLEST


class ChunkerOptions(Options):
    """``min_tokens`` and ``max_tokens`` limit every chunk's text, in cl100k tokens (see text/limits.py)."""

    context: Context = Field(
        default="headings", description="lines in front of a chunk that the model and the lexical index read"
    )
    neighbours: float = Field(
        default=0.0, ge=0, le=1, description="share of the neighbouring chunks in a vector"
    )
    min_tokens: int | None = Field(
        default=None, ge=1, description="shorter chunks are joined with a neighbour; default: none are"
    )
    max_tokens: int | None = Field(
        default=None, ge=SMALLEST, description="longer chunks are cut; default: as the strategy does"
    )

    @model_validator(mode="after")
    def _limits_in_order(self) -> "ChunkerOptions":
        if self.min_tokens is not None and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})")
        return self


class OverlapOptions(ChunkerOptions):
    """Options of chunkers whose chunks may repeat the end of the chunk before, in a unit of the chunker."""

    overlap: int = Field(default=0, ge=0, description="units of a chunk's end that the next chunk repeats")

    @model_validator(mode="after")
    def _neighbours_need_no_overlap(self) -> "OverlapOptions":
        if self.neighbours and self.overlap:
            raise ValueError("neighbours needs overlap: 0 (repeated text would count twice)")
        return self


def require_smaller(small: str, value: int | None, large: str, bound: int | None) -> None:
    """Raises ValueError unless ``value`` is below ``bound``; None is no bound."""
    if value is not None and bound is not None and value >= bound:
        raise ValueError(f"{small} ({value}) must be smaller than {large} ({bound})")


def smaller(first: int, second: int | None) -> int:
    """The tighter of a limit and an optional one."""
    return first if second is None else min(first, second)
