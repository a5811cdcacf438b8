"""A reader as apps have them: lists and queries without pause, by name and by a handle that it keeps, and
writes down what it saw, a JSON object a line. ``python reader.py PORT``; ends with its standard input.
"""

import json
import sys
import threading
import time

import chromadb


def look(collection) -> dict:
    found = collection.get(include=["metadatas"])
    seen = {
        "recipes": sorted({meta["recipe"] for meta in found["metadatas"]}),
        "documents": len({meta["document_id"] for meta in found["metadatas"]}),
        "records": len(found["ids"]),
    }
    if found["ids"]:
        vector = collection.get(ids=found["ids"][:1], include=["embeddings"])["embeddings"]
        seen["dimensions"] = len(vector[0]) if len(vector) else 0
        seen["hits"] = (
            len(collection.query(query_embeddings=vector, n_results=3)["ids"][0]) if len(vector) else 0
        )
    return seen


def main(port: int) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    client = handle = None
    while not over.is_set():
        at = time.time()
        try:
            client = client or chromadb.HttpClient(port=port)
            collection = client.get_collection("docs")
            said = {"by": "name", **look(collection)}
            handle = handle or collection
            print(json.dumps({"at": at, **said}), flush=True)
            print(json.dumps({"at": at, "by": "handle", **look(handle)}), flush=True)
        except Exception as error:  # noqa: BLE001 - what is no answer is written down, too
            print(
                json.dumps({"at": at, "by": "error", "error": f"{type(error).__name__}: {error}"}), flush=True
            )
            client, handle = client if "does not exist" in str(error) else None, None
        time.sleep(0.005)


main(int(sys.argv[1]))
