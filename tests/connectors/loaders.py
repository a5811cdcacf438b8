"""Code that gives documents, as a user would write it, and in the shapes of LangChain and LlamaIndex.

It runs in a process of its own, once a listing: nothing is imported here that it does not need.
"""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def files_below(folder: str) -> Iterator[dict[str, Any]]:
    root = Path(folder)
    if not root.is_dir():
        raise OSError("the shelf is not there")
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield {"key": path.relative_to(root).as_posix(), "data": path.read_bytes(), "uri": str(path)}


def given(documents: list[Any], fail: str = "", secret: str = "") -> Iterator[Any]:
    yield from documents
    if fail:
        raise RuntimeError(fail)


@dataclass
class LoadedDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class ReadDocument:
    text: str
    metadata: dict[str, Any]
    id_: str = "random"

    def get_content(self) -> str:
        return self.text


class Loader:
    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def lazy_load(self) -> Iterator[LoadedDocument]:
        for number, text in enumerate(self.texts):
            yield LoadedDocument(text, {"source": "book.pdf", "page": number})


class Reader:
    def load_data(self, names: list[str]) -> list[ReadDocument]:
        return [ReadDocument(f"on {name}", {"url": f"https://{name}"}) for name in names]


def noisy(text: str) -> Iterator[dict[str, Any]]:
    """Does what libraries do that were not made to be part of something."""
    print("on standard output")
    os.write(1, b"on its descriptor\n")
    logging.basicConfig(level=logging.DEBUG, force=True)
    logging.disable(logging.CRITICAL)
    os.environ["NOISY"] = "1"
    os.chdir("/")
    yield {"key": "a", "text": text}


def hanging(pids: str) -> Iterator[dict[str, Any]]:
    yield {"key": "a", "text": "one"}
    Path(pids).write_text(str(os.getpid()))
    time.sleep(600)


def leaving(how: str) -> Iterator[dict[str, Any]]:
    yield {"key": "a", "text": "one"}
    if how == "exit":
        raise SystemExit("enough")
    if how == "mistake":  # within, which looks like a call that is wrong
        raise TypeError("unexpected keyword argument")
    os._exit(0) if how == "silently" else os.abort()


def wanting() -> Iterator[dict[str, Any]]:
    import no_such_library.part

    yield {"key": "a", "text": no_such_library.part.text}
