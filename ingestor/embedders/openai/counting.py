"""Tokens of texts for a server, which has no call to count them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ingestor.ports import NeedsHuman
from ingestor.text.tokens import Tokens

Count = Callable[[Sequence[str]], list[int]]


def counter(tokenizer: Path | None) -> Count:
    """By a ``tokenizer.json``, or the one in a folder; else by cl100k_base, which OpenAI's models have.

    Raises NeedsHuman where there is none.
    """
    if tokenizer is None:
        return Tokens().counts
    from ingestor.embedders.tokenizing import from_folder

    folder = tokenizer.parent if tokenizer.name == "tokenizer.json" else tokenizer
    try:
        found = from_folder(folder)
    except Exception as error:
        raise NeedsHuman(f"embedding: the tokenizer in {folder} can't be read: {error}") from error
    if found is None:
        raise NeedsHuman(f"embedding: there is no tokenizer.json in {folder}")
    return lambda texts: [len(encoding) for encoding in found.encode_batch_fast(list(texts))]
