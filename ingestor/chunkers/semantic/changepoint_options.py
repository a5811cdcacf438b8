"""The options of ``changepoint``, which are checked without what cuts: NumPy takes long to import."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ingestor.chunkers.options import Pick, SemanticOptions, smaller
from ingestor.registry import added
from ingestor.text.limits import SMALLEST

VERSION = 3
_PIECE = 50  # tokens


class ChangepointOptions(SemanticOptions):
    target: int = Field(default=125, ge=SMALLEST, description="mean size of a chunk, in tokens")
    max_tokens: int | None = Field(
        default=None,
        ge=SMALLEST,
        description="largest chunk; default: 2.5 times `target`",
    )
    penalty: Literal["auto"] | Annotated[float, Field(gt=0, le=1000)] = Field(
        default="auto",
        description="price of a chunk; `auto`: set so that the mean chunk has `target` tokens",
    )
    scope: Literal["collection", "document"] = Field(
        default="collection",
        description="one price for the `collection`, or one for each `document`",
    )
    drift: float = Field(
        default=0.0, ge=0, le=1, description="slack of the price before documents are cut again, as a share"
    )
    structure: float = added(
        1.0,
        before=0.0,
        ge=0,
        le=1,
        description="weight of headings, blocks, lists, tables and code beside meaning",
    )
    by_type: dict[str, Pick] = added(
        {"code": {"strategy": "structure", "max_tokens": 150}},
        before={},
        validate_default=True,
        description="other strategies for documents of a content type such as `text/html` or `text/*`, or of "
        "`code`: programs and configuration. The first that matches is used",
    )
    vectors: Literal["encoded", "pooled"] = Field(
        default="pooled",
        description="`pooled`: pool the vectors that the cuts used, and set `neighbours` to 0.3 by "
        "default; `encoded`: embed each chunk's text",
    )

    @model_validator(mode="after")
    def _drift_needs_a_price_that_moves(self) -> Self:
        if self.drift and not self.collective:
            raise ValueError("drift needs scope: collection and penalty: auto (no other price drifts)")
        return self

    @property
    def collective(self) -> bool:
        """Whether the price is the collection's."""
        return self.scope == "collection" and self.penalty == "auto"

    @property
    def most(self) -> int:
        """Tokens of the largest chunk."""
        return smaller(self.target * 5 // 2, self.max_tokens)

    @property
    def piece(self) -> int:
        """Tokens of the largest piece."""
        return max(SMALLEST, min(_PIECE, self.most // 4))
