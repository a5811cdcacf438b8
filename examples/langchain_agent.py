"""A tool for a LangChain agent: it searches a collection that ingestor keeps up to date.

Install langchain and langchain-chroma, and start `ingestor run` before, which embeds the questions. Pass the
tool to an agent: `create_agent("openai:gpt-5", [search])`.

    python langchain_agent.py "How long may I keep a book?"
"""

import argparse

import chromadb
from langchain_chroma import Chroma
from langchain_core.tools import tool


def main() -> None:
    parser = argparse.ArgumentParser(description="Call the tool as an agent would.")
    parser.add_argument("question")
    parser.add_argument("--port", type=int, default=8000, help="of Chroma")
    wanted = parser.parse_args()
    print(search_tool(wanted.port).invoke({"question": wanted.question}))


def search_tool(port: int):
    """Build the tool, which returns passages with their citations for a question."""
    client = chromadb.HttpClient(port=port)

    @tool
    def search(question: str) -> str:
        """Search the documents. Answer from these passages alone, and cite them by their numbers."""
        # Opened by name each time: after a changed strategy the name belongs to another collection.
        store = Chroma(client=client, collection_name="docs", create_collection_if_not_exists=False)
        found = store.similarity_search(question, k=5)
        return "\n\n".join(
            f"[{number}] {place(document.metadata)}\n{document.page_content}"
            for number, document in enumerate(found, 1)
        )

    return search


def place(metadata: dict) -> str:
    """Return the citation of a passage: the file, the page or line if known, and the headings above it."""
    where = f", page {metadata['page'] + 1}" if "page" in metadata else ""
    where = f":{metadata['start_line']}" if "start_line" in metadata else where
    return f"{metadata['source']}{where} {metadata.get('heading_path', '')}".rstrip()


if __name__ == "__main__":
    main()
