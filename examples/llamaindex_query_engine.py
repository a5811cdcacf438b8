"""A LlamaIndex query engine over a collection that ingestor keeps up to date.

Install llama-index-core and llama-index-vector-stores-chroma, and start `ingestor run` before, whose service
port embeds the questions. The example prints the context for a language model. To get an answer of a model,
set `Settings.llm` and leave `response_mode` out.

    python llamaindex_query_engine.py "How long may I keep a book?"
"""

import argparse
import json
import urllib.request

import chromadb
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.vector_stores.chroma import ChromaVectorStore


class ServicePort(BaseEmbedding):
    """Embed questions at the daemon's service port, with the model of the documents."""

    address: str

    def _get_query_embedding(self, query: str) -> list[float]:
        body = json.dumps({"inputs": [query]}).encode()
        asked = urllib.request.Request(self.address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        raise NotImplementedError("ingestor embeds the documents")


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a query engine.")
    parser.add_argument("question")
    parser.add_argument("--port", type=int, default=8000, help="of Chroma")
    parser.add_argument("--service-port", type=int, default=8001)
    wanted = parser.parse_args()

    Settings.llm = MockLLM()  # or the model that writes answers
    collection = chromadb.HttpClient(port=wanted.port).get_collection("docs")
    index = VectorStoreIndex.from_vector_store(
        ChromaVectorStore(chroma_collection=collection),
        embed_model=ServicePort(address=f"http://127.0.0.1:{wanted.service_port}/embed/docs"),
    )
    engine = index.as_query_engine(response_mode="no_text", similarity_top_k=3)
    for found in engine.query(wanted.question).source_nodes:
        print(f"{found.score:.3f}  {found.node.metadata['source']}")
        print(found.node.get_content(), end="\n\n")


if __name__ == "__main__":
    main()
