"""Counting tokens by a model's own tokenizer, without torch."""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence

from ingestor.embedders.model_files import read_json


def from_folder(folder: Path) -> Tokenizer | None:
    """Load the tokenizer of the transformer in the folder, without truncation; None if there is no file.

    ``do_lower_case`` of sentence_bert_config.json is obeyed as sentence-transformers does.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    tokenizer = Tokenizer.from_file(str(file))
    if read_json(folder / "sentence_bert_config.json").get("do_lower_case"):
        own = tokenizer.normalizer
        tokenizer.normalizer = Lowercase() if own is None else Sequence([Lowercase(), own])
    return disable_truncation(tokenizer)


def disable_truncation(tokenizer: Tokenizer) -> Tokenizer:
    """Disable truncation and padding, and return the tokenizer, which threads may share."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
