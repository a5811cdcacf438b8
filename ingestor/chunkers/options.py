"""Options that all chunkers share.

Three of them are not applied by the chunker: the pipeline applies ``context`` and ``neighbours``, and
``by_type.build_chunker`` applies ``by_type``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError, field_validator, model_serializer, model_validator

from ingestor.core.content_types import code_language
from ingestor.core.fingerprint import complete, recipe_options
from ingestor.registry import Options, UnknownKind, added, find
from ingestor.text.context import Context
from ingestor.text.limits import SMALLEST


class Pick(Options):
    """A strategy that a config chooses for some documents, with the strategy's options.

    A config gives it as one mapping, or as the name of the strategy alone.
    """

    strategy: str
    options: Options

    @model_validator(mode="before")
    @classmethod
    def _side_by_side(cls, data: Any) -> Any:
        if isinstance(data, str):
            data = {"strategy": data}
        if not isinstance(data, Mapping) or not isinstance(data.get("strategy"), str):
            raise ValueError("must be a strategy's name, or a mapping with `strategy` and its options")
        given = {key: value for key, value in data.items() if key != "strategy"}
        return {"strategy": data["strategy"], "options": _options(data["strategy"], given)}

    @model_serializer
    def _recipe(self) -> dict[str, Any]:
        version = find("chunkers", self.strategy).version
        return {"strategy": self.strategy, "version": version, **recipe_options(self.options)}


def _options(strategy: str, given: dict[str, Any]) -> Options:
    """Check the options that a config gives for a strategy. Raises ValueError with a message for the user."""
    if strategy == "auto" or given.pop("by_type", None):
        raise ValueError("must be a strategy other than `auto`, without `by_type`")
    try:
        plugin = find("chunkers", strategy)
    except (UnknownKind, ImportError) as error:
        raise ValueError(str(error)) from None
    if "version" in given:  # from a recipe
        given = complete(plugin.options, given)
    if given.pop("version", plugin.version) != plugin.version:
        raise ValueError(
            f"the installed strategy {strategy} has version {plugin.version}, not that of the recipe"
        )
    fixed: dict[str, Any] = {"scope": "document"} if "scope" in plugin.options.model_fields else {}
    none: dict[str, Any] = {"by_type": {}} if "by_type" in plugin.options.model_fields else {}
    with _first_error(strategy):
        return plugin.options.model_validate({**fixed, **given, **none})


@contextmanager
def _first_error(place: str) -> Iterator[None]:
    """Turn a ValidationError in the context into a ValueError with its first error.

    ``place``: beginning of the message, which says where in the config the error is.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        steps = "".join(f"{step}: " for step in first["loc"])
        raise ValueError(f"{place}: {steps}{first['msg'].removeprefix('Value error, ')}") from None


class ChunkerOptions(Options):
    """Options of all strategies.

    ``min_tokens`` and ``max_tokens`` limit the text of a chunk, in tokens of cl100k_base (see
    text/limits.py).
    """

    context: Context = Field(
        default="headings",
        description="lines in front of a chunk for embedding and for search by words: title, headings, "
        "table header",
    )
    neighbours: float = Field(
        default=0.0, ge=0, le=1, description="weight of the adjacent chunks in the vector of a chunk"
    )
    min_tokens: int | None = Field(
        default=None,
        ge=1,
        description="chunks with fewer tokens are joined with a neighbour; default: no minimum",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=SMALLEST,
        description="most tokens of a chunk; larger chunks are split. Default: the strategy's own limit",
    )

    by_type: dict[str, Pick] = added(
        {},
        before={},
        description="other strategies for documents of a content type such as `text/html` or `text/*`, or of "
        "`code`: programs and configuration. The first that matches is used",
    )

    def of_type(self, content_type: str) -> str | None:
        """Return the first key of ``by_type`` that matches a content type; None if no key does."""
        is_code = code_language(content_type) is not None
        keys = (key for key in self.by_type if (is_code if key == "code" else fnmatchcase(content_type, key)))
        return next(keys, None)

    def options_of(self, key: str) -> Options:
        """Return the options of the strategy under a key of ``by_type``, completed by these options.

        Context and limits of the main strategy apply unless that strategy sets its own, but never a larger
        ``max_tokens``. Raises ValidationError if the minimum exceeds the maximum.
        """
        options = self.by_type[key].options
        names = [name for name in ("context", "min_tokens", "max_tokens") if name in self.model_fields_set]
        set_here = ((name, getattr(self, name)) for name in names)
        shared: dict[str, Any] = {name: value for name, value in set_here if value is not None}
        own = {name: getattr(options, name) for name in options.model_fields_set}
        values: dict[str, Any] = {**shared, **own}
        limits = [each.max_tokens for each in (self, options) if isinstance(each, ChunkerOptions)]
        most = min((each for each in limits if each is not None), default=None)
        if most is not None:
            values["max_tokens"] = most
        if most is not None and "min_tokens" in shared:
            values["min_tokens"] = min(values["min_tokens"], most)
        return type(options).model_validate(values)

    @field_validator("by_type")
    @classmethod
    def _names_types(cls, value: dict[str, Pick]) -> dict[str, Pick]:
        for key in value:
            if key != "code" and "/" not in key:
                raise ValueError(f"{key} must be `code` or a content type, such as text/html or text/*")
        return value

    @model_validator(mode="after")
    def _picks_agree(self) -> "ChunkerOptions":
        for key in self.by_type:
            with _first_error(f"by_type: {key}"):
                options = self.options_of(key)
            if getattr(options, "context", self.context) != self.context:
                raise ValueError(
                    f"by_type: {key}: `context` must be the same for all types; set it beside `by_type`"
                )
        return self

    @model_validator(mode="after")
    def _limits_in_order(self) -> "ChunkerOptions":
        if self.min_tokens is not None and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})")
        return self


class OverlapOptions(ChunkerOptions):
    """Options of chunkers whose chunks may repeat the end of the previous chunk.

    Each chunker has its own unit for ``overlap``. ``size_option``: name of the option that limits a chunk in
    that unit.
    """

    size_option: ClassVar[str] = "size"

    overlap: int = Field(default=0, ge=0, description="units of a chunk's end that the next chunk repeats")

    @model_validator(mode="after")
    def _neighbours_need_no_overlap(self) -> "OverlapOptions":
        if self.neighbours and self.overlap:
            raise ValueError("`neighbours` needs `overlap: 0`, because repeated text would count twice")
        return self

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "OverlapOptions":
        size: int = getattr(self, self.size_option)
        if self.overlap >= size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than {self.size_option} ({size})")
        return self


def smaller(first: int, second: int | None) -> int:
    """Return the smaller of a limit and an optional limit."""
    return first if second is None else min(first, second)


_SHARE = 0.3  # default of ``neighbours`` for pooled vectors


class SemanticOptions(ChunkerOptions):
    """Options of strategies that compare the vectors of parts of a text."""

    vectors: Literal["encoded", "pooled"] = Field(
        default="encoded",
        description="`encoded`: embed the text of each chunk; `pooled`: mean of the vectors of its segments",
    )

    @model_validator(mode="before")
    @classmethod
    def _mix_pooled_vectors(cls, data: Any) -> Any:
        default = cls.model_fields["vectors"].default
        if isinstance(data, dict) and data.get("vectors", default) == "pooled":
            return {"neighbours": _SHARE, **data}
        return data


class GrowingOptions(SemanticOptions):
    """Options of strategies that need a minimum size, because they cut wherever neighbouring units differ."""

    @model_validator(mode="before")
    @classmethod
    def _fit_minimum(cls, data: Any) -> Any:
        """Lower the default of ``min_tokens`` to half of ``max_tokens`` if it is greater."""
        least = cls.model_fields["min_tokens"].default
        most = data.get("max_tokens") if isinstance(data, dict) else None
        if isinstance(most, int) and "min_tokens" not in data and most < 2 * least:
            return {**data, "min_tokens": max(1, most // 2)}
        return data
