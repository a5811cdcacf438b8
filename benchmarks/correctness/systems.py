"""Run a pass of a system over a folder, in a process of its own, by the interpreter that has the system.

``python systems.py NAME STATE DOCUMENTS MODEL SIZE`` indexes the folder as the system's documentation shows
for incremental use. It prints JSON: texts embedded, the error if one ended the pass, the records that readers
see, and the number of records that a search by their own vector does not find among ten. With MODEL ``-``
records are only read. Every system embeds by the same function, which counts, and cuts by its own splitter.
"""

import json
import os
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

WIDTHS = {"a": 64, "b": 48}  # dimensions of the two models
Record = tuple[str, str, list[float]]  # document, text, vector
embedded = 0


def vector(text: str, width: int) -> list[float]:
    """Embed a text: the sum of pseudo-random unit vectors of its words. Counted."""
    global embedded
    embedded += 1
    total = [0.0] * width
    for word in text.lower().split():
        seed = blake2b(word.encode(), digest_size=width).digest()
        total = [sum_ + byte - 127.5 for sum_, byte in zip(total, seed, strict=True)]
    length = sum(each * each for each in total) ** 0.5 or 1.0
    return [each / length for each in total]


def ingestor(state: Path, documents: Path, model: str, size: int) -> None:
    """Sync a project with Chroma inside the process."""
    global embedded
    from ingestor import Project

    source = {"name": "docs", "kind": "folder", "path": str(documents), "collection": "docs", "settle": "0s"}
    config = {
        "state": str(state / "state"),
        "chroma": {"path": str(state / "chroma"), "embedded": True},
        "http": False,
        "embedding": {"kind": "hashing", "dimensions": WIDTHS[model]},
        "chunking": {"strategy": "recursive", "size": size // 5, "overlap": 0},
        "rechunk": {"mode": "swap"},
        "sources": [source],
    }
    (state / "config.yaml").write_text(json.dumps(config))
    report = Project(state / "config.yaml").sync()
    embedded = report.embedded.texts
    if report.held or report.problems or report.waits or report.unseen:
        reasons = [*report.held.values(), *report.unseen.values(), *report.waits.values()]
        raise RuntimeError("; ".join([*reasons, *(problem.reason for problem in report.problems)]))


def langchain(state: Path, documents: Path, model: str, size: int) -> None:
    """Call ``index()`` with full cleanup and a record manager in SQLite, into Chroma."""
    from langchain_chroma import Chroma
    from langchain_classic.indexes import SQLRecordManager
    from langchain_community.document_loaders import DirectoryLoader, TextLoader
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import index
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    class Counted(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector(text, WIDTHS[model]) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return vector(text, WIDTHS[model])

    loader = DirectoryLoader(
        str(documents), glob="**/*.md", loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"}
    )
    cut = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0)
    pieces = cut.split_documents(loader.load())
    store = Chroma("docs", Counted(), persist_directory=str(state / "chroma"))
    manager = SQLRecordManager("chroma/docs", db_url=f"sqlite:///{state}/records.sqlite3")
    manager.create_schema()
    index(pieces, manager, store, cleanup="full", source_id_key="source", key_encoder="sha256")


def llamaindex(state: Path, documents: Path, model: str, size: int) -> None:
    """Run an ``IngestionPipeline`` that upserts and deletes, with a document store on disk, into Chroma."""
    import chromadb
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.vector_stores.chroma import ChromaVectorStore

    class Counted(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vector(text, WIDTHS[model])

        def _get_query_embedding(self, query: str) -> list[float]:
            return vector(query, WIDTHS[model])

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return vector(query, WIDTHS[model])

    collection = chromadb.PersistentClient(str(state / "chroma")).get_or_create_collection("docs")
    pipeline = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=size // 4, chunk_overlap=0, tokenizer=str.split),
            Counted(model_name=model),
        ],
        vector_store=ChromaVectorStore(chroma_collection=collection),
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    kept = state / "pipeline"
    if kept.exists():
        pipeline.load(str(kept))
    pipeline.run(documents=SimpleDirectoryReader(str(documents), filename_as_id=True).load_data())
    pipeline.persist(str(kept))


def cocoindex(state: Path, documents: Path, model: str, size: int) -> None:
    """Run an app that declares a LanceDB table of the chunks of every file."""
    from collections.abc import AsyncIterator
    from dataclasses import dataclass
    from typing import Annotated

    import cocoindex as coco
    import numpy as np
    from cocoindex.connectors import lancedb, localfs
    from cocoindex.ops.text import RecursiveSplitter
    from cocoindex.resources.file import PatternFilePathMatcher
    from cocoindex.resources.schema import VectorSchema
    from numpy.typing import NDArray

    width, splitter = WIDTHS[model], RecursiveSplitter()
    database: Any = coco.ContextKey("docs")

    @dataclass
    class Row:
        id: str
        source: str
        text: str
        embedding: Annotated[NDArray[np.float32], VectorSchema(np.dtype("float32"), width)]

    @coco.lifespan
    async def lifespan(builder: Any) -> AsyncIterator[None]:
        builder.settings.db_path = state / "coco"
        builder.provide(database, await lancedb.connect_async(str(state / "lancedb")))
        yield

    @coco.fn(memo=True)
    def embed(text: str, width: int) -> Any:
        return np.asarray(vector(text, width), np.float32)

    @coco.fn(memo=True)
    async def document(file: Any, size: int, width: int, table: Any) -> None:
        name = Path(file.file_path.path).name
        for number, chunk in enumerate(splitter.split(await file.read_text(), chunk_size=size)):
            row = Row(f"{name}#{number}", name, chunk.text, embed(chunk.text, width))
            table.declare_row(row=row)

    @coco.fn
    async def app() -> None:
        schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
        table = await lancedb.mount_table_target(database, "docs", schema)
        files = localfs.walk_dir(documents, path_matcher=PatternFilePathMatcher(["**/*.md"]))
        await coco.mount_each(document, files.items(), size, width, table)

    coco.App(coco.AppConfig(name="correctness"), app).update_blocking()


def pathway(state: Path, documents: Path, model: str, size: int) -> None:
    """Run a persisted table of chunks over the folder, whose changes go to a table in SQLite."""
    import sqlite3

    import pathway as pw

    db = sqlite3.connect(state / "rows.sqlite3", isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, source TEXT, text TEXT, vector TEXT)")

    @pw.udf(deterministic=True)
    def cut(text: str) -> list[str]:
        parts, current = [], ""
        for paragraph in text.split("\n\n"):
            if current and len(current) + len(paragraph) > size:
                parts.append(current)
                current = ""
            current = f"{current}\n\n{paragraph}" if current else paragraph
        return [*parts, current] if current.strip() else parts

    @pw.udf(deterministic=True, cache_strategy=pw.udfs.DefaultCache())
    def embed(text: str) -> str:
        return json.dumps(vector(text, WIDTHS[model]))

    def write(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            values = (str(key), row["source"], row["text"], row["vector"])
            db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", values)
        else:
            db.execute("DELETE FROM rows WHERE key = ?", (str(key),))

    files = pw.io.fs.read(
        str(documents), format="plaintext_by_file", mode="static", with_metadata=True, name="files"
    )
    chunks = files.select(source=pw.this._metadata["path"].as_str(), text=cut(pw.this.data)).flatten(
        pw.this.text
    )
    table = chunks.select(pw.this.source, pw.this.text, vector=embed(pw.this.text))
    pw.io.subscribe(table, on_change=write)
    backend = pw.persistence.Backend.filesystem(str(state / "persisted"))
    pw.run(persistence_config=pw.persistence.Config(backend), monitoring_level=pw.MonitoringLevel.NONE)


def of_chroma(state: Path) -> tuple[list[Record], int]:
    """Read what a reader of Chroma sees, and count the records out of reach of a search."""
    import chromadb

    client = chromadb.PersistentClient(str(state / "chroma"))
    if "docs" not in [collection.name for collection in client.list_collections()]:
        return [], 0
    collection = client.get_collection("docs")
    stored = collection.get(include=["metadatas", "documents", "embeddings"])
    names = [str(meta.get("file_name") or meta.get("source")) for meta in stored["metadatas"]]
    lost = 0
    for start in range(0, len(stored["ids"]), 100):
        some = slice(start, start + 100)
        near = collection.query(query_embeddings=stored["embeddings"][some], n_results=10, include=[])
        lost += sum(id_ not in ids for id_, ids in zip(stored["ids"][some], near["ids"], strict=True))
    texts = stored["documents"]
    return [*zip(names, texts, (list(map(float, row)) for row in stored["embeddings"]), strict=True)], lost


def of_lancedb(state: Path) -> tuple[list[Record], int]:
    import lancedb

    if "docs" not in (db := lancedb.connect(str(state / "lancedb"))).table_names():
        return [], 0
    table = db.open_table("docs")
    rows = table.to_arrow().to_pylist()
    near = ([hit["id"] for hit in table.search(row["embedding"]).limit(10).to_list()] for row in rows)
    lost = sum(row["id"] not in ids for row, ids in zip(rows, near, strict=True))
    return [(row["source"], row["text"], row["embedding"]) for row in rows], lost


def of_sqlite(state: Path) -> tuple[list[Record], int]:
    import sqlite3

    db = sqlite3.connect(state / "rows.sqlite3")
    rows = db.execute("SELECT source, text, vector FROM rows").fetchall()
    return [(source, text, json.loads(row)) for source, text, row in rows], 0


Reading = Callable[[Path], tuple[list[Record], int]]
SYSTEMS: dict[str, tuple[Callable[[Path, Path, str, int], None], Reading]] = {
    "ingestor": (ingestor, of_chroma),
    "langchain": (langchain, of_chroma),
    "llamaindex": (llamaindex, of_chroma),
    "cocoindex": (cocoindex, of_lancedb),
    "pathway": (pathway, of_sqlite),
}


def main(name: str, state: str, documents: str, model: str, size: str) -> None:
    sync, read = SYSTEMS[name]
    error = None
    Path(state).mkdir(parents=True, exist_ok=True)
    if model != "-":
        try:
            sync(Path(state), Path(documents), model, int(size))
        except Exception as failure:  # noqa: BLE001 - the outcome of a row
            error = f"{type(failure).__name__}: {failure}".partition("\n")[0]
    records, lost = read(Path(state))
    rows = [(Path(source).name, text.strip(), len(row)) for source, text, row in records]
    print(json.dumps({"embedded": embedded, "error": error, "records": rows, "lost": lost}), flush=True)
    os._exit(0)  # threads of some systems outlive their work


if __name__ == "__main__":
    main(*sys.argv[1:])
