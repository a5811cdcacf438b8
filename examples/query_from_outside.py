"""Ask a collection that ingestor keeps up to date, from a program of your own.

Install chromadb; no part of ingestor is needed. The collection stores what embeds its questions, usually the
daemon at its service port. If this is a local model, install sentence-transformers, too. If Chroma requires a
token, set the variable CHROMA_TOKEN. If the service port requires one, set INGESTOR_TOKEN.

    python query_from_outside.py docs "How do I renew my passport?"
"""

import argparse
import os
import textwrap

import chromadb


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a collection that ingestor keeps up to date.")
    parser.add_argument("collection", help="its name, as in config.yaml")
    parser.add_argument("question")
    parser.add_argument("-n", type=int, default=5, help="how many answers")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    wanted = parser.parse_args()

    client = chromadb.HttpClient(host=wanted.host, port=wanted.port, settings=settings())
    collection = client.get_collection(wanted.collection)
    # Filters go in `where`, e.g. where={"language": "en"} or where={"path": "handbook/pay.md"}.
    found = collection.query(query_texts=[wanted.question], n_results=wanted.n)

    for text, metadata, distance in zip(
        found["documents"][0], found["metadatas"][0], found["distances"][0], strict=True
    ):
        print(f"{1 - distance:.3f}  {place(metadata)}")
        print(textwrap.indent(textwrap.fill(text, 100), "       "), end="\n\n")


def settings() -> chromadb.Settings:
    """Build client settings that send the token, if it is set."""
    token = os.environ.get("CHROMA_TOKEN")
    if not token:
        return chromadb.Settings()
    return chromadb.Settings(
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials=token,
    )


def place(metadata: dict) -> str:
    """Return the citation of an answer: the file, the lines, and the headings above it."""
    lines = f", lines {metadata['start_line']}-{metadata['end_line']}" if "start_line" in metadata else ""
    headings = f" ({metadata['heading_path']})" if "heading_path" in metadata else ""
    return f"{metadata.get('source')}{lines}{headings}"


if __name__ == "__main__":
    main()
