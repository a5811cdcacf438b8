"""The bare engine's part of ``race``: embeds the texts, and prints elapsed and processor seconds."""

import json
import sys
import time
from pathlib import Path

from ingestor.embedders.sentence_transformers import SentenceTransformersEmbedder, SentenceTransformersOptions

WARMING = 256  # texts


def main(path: str) -> None:
    texts = [text for parts in json.loads(Path(path).read_text("utf-8")).values() for text in parts]
    embedder = SentenceTransformersEmbedder(SentenceTransformersOptions())
    embedder.embed(texts[:WARMING])
    begun, worked = time.perf_counter(), time.process_time()
    embedder.embed(texts)
    print(json.dumps([time.perf_counter() - begun, time.process_time() - worked]))


if __name__ == "__main__":
    main(*sys.argv[1:])
