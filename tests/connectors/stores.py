"""File systems that tests change: in memory, in an S3 server, and a folder that other servers show."""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from ingestor.connectors.remote.files import Files, FilesOptions
from tests.connectors.folders import FolderWorld
from tests.waiting import LONG


class StoreWorld:
    """The ``World`` of the connector laws, behind any fsspec file system that can write."""

    def __init__(self, url: str, *, options: dict[str, Any] | None = None, **more: object) -> None:
        self.url = url
        self.source = {"url": url, "options": options or {}, **more}
        self.connector = Files(FilesOptions.model_validate(self.source))
        self.system, self.root = fsspec.core.url_to_fs(url, skip_instance_cache=True, **(options or {}))

    def put(self, key: str, data: bytes) -> None:
        self.system.pipe_file(f"{self.root}/{key}", data)

    def delete(self, key: str) -> None:
        self.system.rm_file(f"{self.root}/{key}")

    def move(self, old: str, new: str) -> None:
        data = self.system.cat_file(f"{self.root}/{old}")
        self.delete(old)
        self.put(new, data)

    def fail(self) -> None:
        self.system.rm(self.root, recursive=True)


def in_memory(**more: object) -> StoreWorld:
    world = StoreWorld(f"memory://{uuid.uuid4().hex}", **more)
    world.system.makedirs(world.root)
    return world


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """What its clients are to be told."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield {"key": "k", "secret": "s", "endpoint_url": f"http://{host}:{port}"}
    finally:
        server.stop()


def in_s3(server: dict[str, Any], **more: object) -> StoreWorld:
    world = StoreWorld(f"s3://b{uuid.uuid4().hex}", options=server, **more)
    world.system.mkdir(world.root)
    return world


class ServedWorld(FolderWorld):
    """A folder that a server shows; each write is a second later than the one before, as servers see time."""

    def __init__(self, folder: Path, **source: object) -> None:
        super().__init__(folder / "root")
        self.root.mkdir(parents=True)
        self._seconds = 1_700_000_000
        self.source = source
        self.connector = Files(FilesOptions.model_validate(source))  # type: ignore[assignment]

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self._seconds += 1
        os.utime(self.root / key, (self._seconds, self._seconds))


@contextmanager
def webdav_server(folder: Path) -> Iterator[int]:
    from cheroot.wsgi import Server
    from wsgidav.wsgidav_app import WsgiDAVApp

    users = {"user_mapping": {"*": {"ada": {"password": "s3cret"}}}}
    settings = {
        "provider_mapping": {"/": str(folder)},
        "simple_dc": users,
        "logging": {"enable": False},
        "verbose": 0,
    }
    server = Server(("127.0.0.1", 0), WsgiDAVApp(settings))
    server.prepare()
    with _running(server.serve, server.stop):
        yield server.bind_addr[1]


@dataclass
class FtpServer:
    port: int
    let_in: Callable[[bool], None]
    sent: int = 0  # files


@contextmanager
def ftp_server(folder: Path) -> Iterator[FtpServer]:
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import ThreadedFTPServer

    authorizer = DummyAuthorizer()

    def let_in(yes: bool) -> None:
        if authorizer.has_user("ada"):
            authorizer.remove_user("ada")
        if yes:
            authorizer.add_user("ada", "s3cret", str(folder))

    class Handler(FTPHandler):
        def on_file_sent(self, file: str) -> None:
            told.sent += 1

    let_in(True)
    Handler.authorizer = authorizer
    Handler.auth_failed_timeout = 0
    server = ThreadedFTPServer(("127.0.0.1", 0), Handler)
    told = FtpServer(server.address[1], let_in)
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            server.serve_forever(timeout=0.05, blocking=False)

    with _running(serve, stopped.set):
        yield told
    server.close_all()


@contextmanager
def _running(serve: Callable[[], object], stop: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(LONG)
