"""File systems that tests change: in memory, in an S3 server, and folders behind servers of every protocol.

A proxy stands before most servers, and can break what they say.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec

from ingestor.connectors.remote.files import Files, FilesOptions
from tests.connectors.folders import FolderWorld
from tests.connectors.proxy import Proxy, before, http
from tests.connectors.servers import (
    HOST,
    PASSWORD,
    Running,
    at_port,
    azure_server,
    google_server,
    sftp_server,
    smb_let_in,
    smb_server,
)  # fmt: skip
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
    shown = {"provider_mapping": {"/": str(folder)}, "simple_dc": users}
    settings = {**shown, "logging": {"enable": False}, "verbose": 0}
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


_S3_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_S3_BUSY = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_GONE_ON = http("401 Unauthorized", WWW_Authenticate='Basic realm="x"')


class Behind:
    """The abilities of a world whose server has a proxy before it."""

    proxy: Proxy
    server: Running | None = None  # where it is a program that can be killed
    secret = PASSWORD

    def behind(
        self, proxy: Proxy, reads: Callable[[], int], *, denial: bytes = _GONE_ON, busy: bytes = b"",
        let_in: Callable[[bool], None] | None = None,
    ) -> None:  # fmt: skip
        """Store what the server answers. ``let_in``: called with whether logins are to succeed, if it can."""
        self.proxy, self.reads = proxy, reads
        self._denial, self._busy, self._let_in = denial, busy, let_in

    def deny(self) -> None:
        if self._let_in is None:
            self.proxy.refuse(self._denial)
        else:
            self._let_in(False)
            self.proxy.drop()

    def throttle(self) -> None:
        self.proxy.refuse(self._busy)

    def cut(self, after: int) -> None:
        self.proxy.cut(after)

    def relent(self) -> None:
        if self._let_in is not None:
            self._let_in(True)
        self.proxy.relent()


class ServedBehind(Behind, ServedWorld):
    pass


class StoredBehind(Behind, StoreWorld):
    pass


def _gets(proxy: Proxy) -> int:
    """Files that were asked for; a folder's address ends in a slash."""
    return sum(asked.startswith("GET ") and asked[-1] != "/" and "?" not in asked for asked in proxy.requests)


@contextmanager
def over_s3(folder: Path) -> Iterator[StoredBehind]:
    with s3_server() as server, before(int(server["endpoint_url"].rpartition(":")[2])) as proxy:
        options = {"endpoint_url": f"http://{HOST}:{proxy.port}", "key": "k", "secret": PASSWORD}
        world = StoredBehind(f"s3://b{uuid.uuid4().hex}", options=options)
        world.system.mkdir(world.root)
        world.behind(
            proxy, partial(_gets, proxy), denial=http("403 Forbidden", _S3_DENIED),
            busy=http("503 Slow Down", _S3_BUSY),
        )  # fmt: skip
        yield world


_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Azure(StoreWorld):
    """Never busy nor cut off: its package then tries again for minutes, whatever it is told."""

    proxy: Proxy
    secret = _AZURE_KEY

    def put(self, key: str, data: bytes) -> None:
        with suppress(ValueError):  # adlfs has written the file before it takes "a@b:c" for an address
            super().put(key, data)

    def deny(self) -> None:
        self.proxy.refuse(http("403 Forbidden"))

    def relent(self) -> None:
        self.proxy.relent()

    def reads(self) -> int:
        return _gets(self.proxy)


@contextmanager
def in_azure(folder: Path) -> Iterator["Azure"]:
    with azure_server(folder / "azurite") as server, before(server.port) as proxy:
        address = f"http://{HOST}:{proxy.port}/devstoreaccount1"
        told = f"AccountName=devstoreaccount1;AccountKey={_AZURE_KEY};BlobEndpoint={address};"
        options = {"connection_string": f"DefaultEndpointsProtocol=http;{told}"}
        world = Azure(f"az://b{uuid.uuid4().hex}", options=options)
        world.system.mkdir(world.root)
        world.proxy = proxy
        yield world


class Google(StoreWorld):
    unservable = ("a;b=c&d.md",)  # the emulator drops what follows a semicolon


@contextmanager
def in_google(folder: Path) -> Iterator[StoreWorld]:
    """Without a proxy: gcsfs tries again for minutes, whatever it is told."""
    with google_server(folder / "google") as server:
        options = {"endpoint_url": f"http://{HOST}:{server.port}", "token": "anon"}
        world = Google(f"gs://b{uuid.uuid4().hex}", options=options)
        world.system.mkdir(world.root)
        yield world


@contextmanager
def over_webdav(folder: Path) -> Iterator[ServedBehind]:
    (folder / "served").mkdir()
    with webdav_server(folder / "served") as port, before(port) as proxy:
        options = {"username": "ada", "base_url": f"http://{HOST}:{proxy.port}"}
        secrets = {"password": "s3cret"}
        world = ServedBehind(folder / "served", url="webdav://root", options=options, secrets=secrets)
        world.behind(proxy, partial(_gets, proxy), busy=http("503 Service Unavailable"))
        yield world


@contextmanager
def over_http(folder: Path) -> Iterator[ServedBehind]:
    """Serve a folder by the index pages of Python's own server."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *given: None})
    handler = partial(quiet, directory=str(folder / "served"))
    with (
        ThreadingHTTPServer((HOST, 0), handler) as server, before(server.server_port) as proxy,
        _running(partial(server.serve_forever, 0.02), server.shutdown),
    ):  # fmt: skip
        world = ServedBehind(folder / "served", url=f"http://{HOST}:{proxy.port}/root")
        world.behind(proxy, partial(_gets, proxy), busy=http("503 Service Unavailable"))
        yield world


@contextmanager
def over_ftp(folder: Path) -> Iterator[ServedBehind]:
    (folder / "served").mkdir()
    with ftp_server(folder / "served") as server, before(server.port) as proxy:
        source = {"options": {"username": "ada", "port": proxy.port}, "secrets": {"password": "s3cret"}}
        world = ServedBehind(folder / "served", url=f"ftp://{HOST}/root", **source)
        world.behind(proxy, lambda: server.sent, let_in=server.let_in)
        yield world


@contextmanager
def over_sftp(folder: Path) -> Iterator[ServedBehind]:
    server_folder = folder / "sshd"
    with sftp_server(server_folder) as (server, told), before(server.port) as proxy:
        options = {**told, **at_port(server_folder, proxy.port)}
        world = ServedBehind(folder / "served", url=f"sftp://{HOST}{folder}/served/root", options=options)
        world.server = server
        keys = server_folder / "authorized"
        allowed = keys.read_text()
        world.behind(
            proxy,
            lambda: (server_folder / "sftp.log").read_text(errors="replace").count('open "'),
            let_in=lambda yes: keys.write_text(allowed if yes else "") and None,
        )
        yield world


@contextmanager
def over_smb(folder: Path) -> Iterator[ServedBehind]:
    server_folder = folder / "smbd"
    with smb_server(server_folder, folder / "served") as (server, told), before(server.port) as proxy:
        options = {**told, "port": proxy.port}
        source = {"options": options, "secrets": {"password": PASSWORD}}
        world = ServedBehind(folder / "served", url=f"smb://{HOST}/docs/root", **source)
        world.server = server
        world.behind(
            proxy,
            lambda: (server_folder / "log").read_text(errors="replace").count("read=Yes"),
            let_in=partial(smb_let_in, server_folder),
        )
        yield world


Made = Callable[[Path], AbstractContextManager[Any]]
SERVED: dict[str, tuple[Made, tuple[str, ...]]] = {  # with the packages that they need
    "s3": (over_s3, ("s3fs", "moto")), "azure": (in_azure, ("adlfs",)),
    "google": (in_google, ("gcsfs", "gcp_storage_emulator")),
    "webdav": (over_webdav, ("webdav4", "wsgidav", "cheroot")), "ftp": (over_ftp, ("pyftpdlib",)),
    "http": (over_http, ("aiohttp",)), "sftp": (over_sftp, ("paramiko",)),
    "smb": (over_smb, ("smbclient",)),
}  # fmt: skip
