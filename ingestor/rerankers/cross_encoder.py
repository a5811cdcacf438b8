"""A cross-encoder of sentence-transformers, loaded by the first question. Used by one thread at a time."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from ingestor.ports import NeedsHuman, Transient

_BATCH = 32  # texts
_LONGEST = 512  # tokens of question and text together, where the model's files do not say


def cross_encoder(model: str) -> Callable[[str, Sequence[str]], Sequence[float]]:
    """Return the scores of a cross-encoder, which is loaded by the first call.

    ``model``: a folder, or a name on the Hugging Face hub.
    """
    loaded = cache(lambda: _loaded(model))

    def scores(question: str, texts: Sequence[str]) -> Sequence[float]:
        try:
            pairs = [(question, text) for text in texts]
            found = loaded().predict(pairs, batch_size=_BATCH, show_progress_bar=False)
        except (RuntimeError, ValueError, IndexError) as error:
            raise Transient(f"the cross-encoder {model} failed: {error}") from error
        return [float(score) for score in found]

    return scores


def _loaded(model: str) -> Any:
    if find_spec("sentence_transformers") is None:
        raise NeedsHuman("a cross-encoder needs the extra `torch`: pip install 'ingestor[torch]'")
    from sentence_transformers import CrossEncoder

    from ingestor.embedders.torch_model import quiet

    try:
        with quiet():
            found = CrossEncoder(model, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NeedsHuman(f"the cross-encoder {model} cannot be loaded: {error}") from error
    if found.num_labels != 1:
        raise NeedsHuman(f"{model} gives {found.num_labels} scores for a text, and a reranker gives one")
    found.max_seq_length = min(found.max_seq_length or _LONGEST, _LONGEST)
    return found
