"""In a virtual environment of its own, without ingestor: a collection as LangChain and LlamaIndex read it.

Arguments: port, collection name, token, page with the example of postprocessors.
Prints as JSON what the stores make of it.
"""

import json
import re
import sys
from pathlib import Path

import chromadb
from langchain_chroma import Chroma
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.vector_stores.chroma import ChromaVectorStore

port, name, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = chromadb.Settings(
    chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
    chroma_client_auth_credentials=token,
)
client = chromadb.HttpClient(host="127.0.0.1", port=port, settings=settings)
collection = client.get_or_create_collection(name, embedding_function=None)  # as LlamaIndex's examples do
everything = collection.count()
vector = [float(x) for x in collection.get(limit=1, include=["embeddings"])["embeddings"][0]]


def document(found):
    return {"id": found.id, "text": found.page_content, "metadata": found.metadata}


def node(found):
    return {
        "id": found.node_id,
        "text": found.get_content(),
        "metadata": found.metadata,
        "start": found.start_char_idx,
        "end": found.end_char_idx,
        "source": found.ref_doc_id,
        "previous": found.prev_node and found.prev_node.node_id,
        "next": found.next_node and found.next_node.node_id,
    }


class Fixed:
    """A model that knows one vector."""

    def embed_query(self, text):
        return vector


langchain = Chroma(client=client, collection_name=name, embedding_function=Fixed())
llama = ChromaVectorStore(chroma_collection=collection)
section = MetadataFilters(filters=[MetadataFilter(key="section_number", value="2.1")])
queried = llama.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=everything))
filtered = llama.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=everything, filters=section))
ids = collection.get()["ids"]
scored = langchain.similarity_search_with_relevance_scores("", k=everything)
threshold = sorted(score for _, score in scored)[1]
retriever = langchain.as_retriever(
    search_type="similarity_score_threshold", search_kwargs={"k": everything, "score_threshold": threshold}
)
near = collection.query([vector], n_results=everything)
distances = dict(zip(near["ids"][0], near["distances"][0], strict=True))
example = next(
    block
    for block in re.findall(r"(?s)```python\n(.*?)```", Path(sys.argv[4]).read_text("utf-8"))
    if "SimilarityPostprocessor" in block
)
made = {}
exec(example, made)
made["postprocessors"][0].similarity_cutoff = sorted(queried.similarities)[1]
shown = [NodeWithScore(node=n, score=s) for n, s in zip(queried.nodes, queried.similarities, strict=True)]
for each in made["postprocessors"]:
    shown = each.postprocess_nodes(shown)
print(
    json.dumps(
        {
            "langchain": [document(d) for d in langchain.similarity_search_by_vector(vector, k=everything)],
            "langchain_by_id": [document(d) for d in langchain.get_by_ids(ids)],
            "langchain_filtered": [
                document(d)
                for d in langchain.similarity_search_by_vector(
                    vector, k=everything, filter={"section_number": "2.1"}
                )
            ],
            "scores": [[d.id, score] for d, score in scored],
            "above_threshold": [d.id for d in retriever.invoke("")],
            "by_path": collection.get(where={"path": "guides/setup.md"})["ids"],
            "distances": distances,
            "shown": [[n.node.node_id, n.node.get_content(MetadataMode.LLM)] for n in shown],
            "llama": [node(n) for n in queried.nodes],
            "llama_by_id": [node(n) for n in llama.get_nodes(ids)],
            "llama_filtered": [node(n) for n in filtered.nodes],
        }
    )
)
