"""Worlds behind real servers of every protocol, each with a proxy before it that can break what it says."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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
)
from tests.connectors.stores import ServedWorld, StoreWorld, ftp_server, s3_server, webdav_server

_S3_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_S3_BUSY = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_GONE_ON = http("401 Unauthorized", WWW_Authenticate='Basic realm="x"')


class Behind:
    """The abilities of a world whose server has a proxy before it."""

    proxy: Proxy
    server: Running | None = None  # where it is a program that can be killed
    secret = PASSWORD

    def behind(
        self,
        proxy: Proxy,
        reads: Callable[[], int],
        *,
        denial: bytes = _GONE_ON,
        busy: bytes = b"",
        let_in: Callable[[bool], None] | None = None,
    ) -> None:
        """``let_in`` is told whether people are to be let in, where the server itself can be."""
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
def in_s3(folder: Path) -> Iterator[StoredBehind]:
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


@contextmanager
def in_google(folder: Path) -> Iterator[StoreWorld]:
    """Without a proxy: gcsfs tries again for minutes, whatever it is told."""
    with google_server(folder / "google") as server:
        options = {"endpoint_url": f"http://{HOST}:{server.port}", "token": "anon"}
        world = StoreWorld(f"gs://b{uuid.uuid4().hex}", options=options)
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
    """Of the index pages that Python's own server makes."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *given: None})
    handler = partial(quiet, directory=str(folder / "served"))
    with ThreadingHTTPServer((HOST, 0), handler) as server, before(server.server_port) as proxy:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            world = ServedBehind(folder / "served", url=f"http://{HOST}:{proxy.port}/root")
            world.behind(proxy, partial(_gets, proxy), busy=http("503 Service Unavailable"))
            yield world
        finally:
            server.shutdown()
            thread.join()


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
    "s3": (in_s3, ("s3fs", "moto")),
    "azure": (in_azure, ("adlfs",)),
    "google": (in_google, ("gcsfs", "gcp_storage_emulator")),
    "webdav": (over_webdav, ("webdav4", "wsgidav", "cheroot")),
    "ftp": (over_ftp, ("pyftpdlib",)),
    "http": (over_http, ("aiohttp",)),
    "sftp": (over_sftp, ("paramiko",)),
    "smb": (over_smb, ("smbclient",)),
}
