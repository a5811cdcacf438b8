"""Facts from a model's own files, in the layout of sentence-transformers; the model is not loaded.

``modules.json`` names the stages and their folders; each stage has a configuration of its own.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LEGACY_POOLING = {  # in the order in which sentence-transformers joins several of them
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that a model has, as in encode_document


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that a model wants before documents and before questions; "" for none."""

    document: str
    query: str


def dimensions(folder: Path) -> int | None:
    """Return the length of the model's vectors; None if the configuration does not state the length."""
    width = None
    for kind, place in modules(folder):
        config = read_json(place / "config.json")
        if kind == "Pooling":
            each = config.get("embedding_dimension") or config.get("word_embedding_dimension")
            width = each and each * len(pooling_modes(config))
        elif kind == "Dense":
            width = config.get("out_features")
        elif kind not in ("Transformer", "Normalize"):
            return None
    return width


def window(folder: Path) -> int | None:
    """Tokens that the model reads of a text, where its configuration says so."""
    place = transformer(folder)
    if place is None:
        return None
    if limit := read_json(place / "sentence_bert_config.json").get("max_seq_length"):
        return int(limit)
    limits = (
        read_json(place / "tokenizer_config.json").get("model_max_length"),
        read_json(place / "config.json").get("max_position_embeddings"),
    )
    return min((int(limit) for limit in limits if limit and 0 < limit < 2**31), default=None)


def transformer(folder: Path) -> Path | None:
    """The folder of the stage that is a transformer, if there is one."""
    return next((place for kind, place in modules(folder) if kind == "Transformer"), None)


def prompts(folder: Path) -> Prompts:
    """The model's own prompts, chosen as sentence-transformers' encode_document and encode_query do."""
    config = read_json(folder / "config_sentence_transformers.json")
    named = config.get("prompts") or {}
    default = named.get(config.get("default_prompt_name")) or ""
    document = next((named[name] for name in _DOCUMENT_PROMPTS if name in named), default)
    return Prompts(document or "", named.get("query", default) or "")


def modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """Kind and folder of each stage, in order."""
    stages = read_json(folder / "modules.json")
    for stage in stages if isinstance(stages, list) else []:
        yield str(stage["type"]).rpartition(".")[2], folder / str(stage["path"])


def pooling_modes(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the modes of a pooling stage; the vectors of several modes are joined."""
    if (mode := config.get("pooling_mode")) is not None:
        return (mode,) if isinstance(mode, str) else tuple(mode)
    return tuple(mode for key, mode in _LEGACY_POOLING.items() if config.get(key) is True) or ("mean",)


def read_json(path: Path) -> Any:
    """An empty dict where the file is missing or is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
