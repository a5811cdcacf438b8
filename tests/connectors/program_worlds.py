"""Real programs from PyPI that list what a test changes: a Singer tap, and a source of Airbyte.

Each has an environment of its own, as people install them, which is made once and kept in .cache.
"""

import csv
import hashlib
import json
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ingestor.connectors.programs import langchain
from ingestor.ports import Connector
from tests.connectors.taps import made

CACHE = Path(__file__).parents[2] / ".cache"
TAP = "tap-jsonl==0.3.1"
SOURCE = "airbyte-cdk==7.39.1"  # its source-declarative-manifest reads any HTTP interface


def installed(package: str, program: str) -> str:
    """The path of a program of that package."""
    key = hashlib.sha256(repr((package, sys.version_info[:2])).encode()).hexdigest()[:8]
    home = CACHE / f"{program}-venv" / key
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", package], check=True)
        (home / "ready").touch()
    return str(home / "bin" / program)


class PageWorld:
    """The ``World`` of the connector laws, but for bytes that are no text: records in a file."""

    def __init__(self, connector: Connector, file: Path, source: dict[str, Any]) -> None:
        self._file, self._pages = file, dict[str, str]()
        self.source, self.connector = source, connector
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def _write(self) -> None:
        pages = [{"path": key, "body": body, "tags": ["a", "b"]} for key, body in self._pages.items()]
        with self._file.open("w") as file:
            match self._file.suffix:
                case ".json":
                    json.dump(pages, file)
                case ".jsonl":
                    file.writelines(f"{json.dumps(page)}\n" for page in pages)
                case _:
                    writer = csv.DictWriter(file, ["path", "body", "tags"])
                    writer.writeheader()
                    writer.writerows(pages)

    def put(self, key: str, data: bytes) -> None:
        self._pages[key] = data.decode()
        self._write()

    def delete(self, key: str) -> None:
        del self._pages[key]
        self._write()

    def move(self, old: str, new: str) -> None:
        self._pages[new] = self._pages.pop(old)
        self._write()

    def fail(self) -> None:
        """The tap takes a file that is not there for an empty one, so it gets one that it can't read."""
        if self._file.suffix == ".jsonl":
            self._file.write_text('{"path": "a.md"}\n{"path": "b.')
        else:
            self._file.unlink()


def _shown(**source: Any) -> dict[str, Any]:
    return {"text": "{body}", "file_name": "{path}", "metadata": ["tags"], **source}


def tap_world(folder: Path) -> PageWorld:
    file = folder / "pages.jsonl"
    source = _shown(
        command=[installed(TAP, "tap-jsonl")],
        settings={"path": str(file), "stream_name": "pages"},
        secrets={},
        streams=["pages"],
        key=["path"],
    )
    return PageWorld(made("singer", source), file, source)


def table_world(folder: Path) -> PageWorld:
    """By a loader of LangChain, which must be installed."""
    file = folder / "pages.csv"
    arguments = {"file_path": str(file), "source_column": "path", "content_columns": ["body"]}
    source = {"loader": "CSVLoader", "arguments": arguments}
    return PageWorld(langchain.build(langchain.LangchainOptions.model_validate(source)), file, source)


@contextmanager
def source_world(folder: Path) -> Iterator[PageWorld]:
    folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        source = _shown(
            command=[installed(SOURCE, "source-declarative-manifest")],
            settings={"__injected_declarative_manifest": _manifest(server.server_port)},
            streams=["pages"],
        )
        yield PageWorld(made("airbyte", source), folder / "pages.json", source)
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def _manifest(port: int) -> dict[str, Any]:
    fields = {"path": {"type": "string"}, "body": {"type": "string"}, "tags": {"type": "array"}}
    ask = {"type": "HttpRequester", "url_base": f"http://127.0.0.1:{port}/", "path": "pages.json"}
    select = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}}
    stream = {
        "type": "DeclarativeStream",
        "name": "pages",
        "primary_key": ["path"],
        "retriever": {"type": "SimpleRetriever", "requester": ask, "record_selector": select},
        "schema_loader": {
            "type": "InlineSchemaLoader",
            "schema": {"type": "object", "properties": fields},
        },
    }
    return {
        "version": "6.0.0",
        "type": "DeclarativeSource",
        "spec": {"type": "Spec", "connection_specification": {"type": "object", "properties": {}}},
        "check": {"type": "CheckStream", "stream_names": ["pages"]},
        "streams": [stream],
    }
