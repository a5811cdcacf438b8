"""In a virtual environment of its own, without ingestor: a collection as LangChain and LlamaIndex read it.

Arguments: port, collection name, token. Prints as JSON what the stores make of it.
"""

import json
import sys

import chromadb
from langchain_chroma import Chroma
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.vector_stores.chroma import ChromaVectorStore

port, name, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = chromadb.Settings(
    chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
    chroma_client_auth_credentials=token,
)
client = chromadb.HttpClient(host="127.0.0.1", port=port, settings=settings)
collection = client.get_collection(name, embedding_function=None)
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


langchain = Chroma(client=client, collection_name=name)
llama = ChromaVectorStore(chroma_collection=collection)
section = MetadataFilters(filters=[MetadataFilter(key="section_number", value="2.1")])
queried = llama.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=everything))
filtered = llama.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=everything, filters=section))
ids = collection.get()["ids"]
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
            "llama": [node(n) for n in queried.nodes],
            "llama_by_id": [node(n) for n in llama.get_nodes(ids)],
            "llama_filtered": [node(n) for n in filtered.nodes],
        }
    )
)
