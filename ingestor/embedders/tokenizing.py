"""Counting tokens by a model's own tokenizer, without torch."""

from pathlib import Path

from tokenizers import Tokenizer


def from_folder(folder: Path) -> Tokenizer | None:
    """That of the model in the folder, if it has one in the common format. Without truncation."""
    file = folder / "tokenizer.json"
    return whole(Tokenizer.from_file(str(file))) if file.is_file() else None


def whole(tokenizer: Tokenizer) -> Tokenizer:
    """Set to neither truncate nor pad. As long as nobody changes it again, threads may share it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
