"""Open the file system of an address, and read its files within limits of size and time.

Defaults of packages that wait without limit or trust unknown servers are replaced; ``options`` of the source
override the new defaults. The size in a listing may be wrong, and a file may have no end. So no more bytes
are read than the caller allows.
"""

import sys
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from fsspec.asyn import sync
from fsspec.core import url_to_fs
from fsspec.registry import known_implementations

from ingestor.ports import NeedsHuman

_SECONDS = 30.0  # longest silence of a server; the engine retries
_PACKAGES = {  # by protocol: package for pip
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "webdav": "'webdav4[fsspec]'",
    "dav": "'webdav4[fsspec]'",
    "http": "aiohttp",
    "https": "aiohttp",
    "github": "requests",
}


def open_address(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the file system for a URL, and the path in it that the URL names.

    Raises the file system's errors.
    """
    protocol, arguments = url.partition("://")[0], dict(options)
    if protocol in ("sftp", "ssh"):
        from ingestor.connectors.remote.sftp import Sftp

        return _make(Sftp, url, arguments)
    if protocol == "smb":
        from ingestor.connectors.remote.smb import Smb

        return _make(Smb, url, arguments)
    if protocol in ("http", "https"):
        arguments = _http_arguments(arguments)
    elif protocol in ("webdav", "dav"):
        from ingestor.connectors.remote.webdav import Webdav

        if "password" in arguments:  # it needs a tuple, which YAML does not have
            arguments["auth"] = (arguments.pop("username", ""), arguments.pop("password"))
        return _make(Webdav, url, arguments)
    elif protocol in ("s3", "s3a"):  # s3fs itself makes five attempts
        arguments["config_kwargs"] = {**_s3_arguments(), **arguments.get("config_kwargs", {})}
    elif protocol in ("gs", "gcs"):
        arguments = {"requests_timeout": _SECONDS, **arguments}
    elif protocol in ("az", "abfs"):
        arguments = {"connection_timeout": int(_SECONDS), "read_timeout": int(_SECONDS), **arguments}
    system, root = url_to_fs(url, skip_instance_cache=True, **arguments)
    return system, root.rstrip("/")


def describe_missing(protocol: str, error: ImportError) -> str:
    """Return the message that tells which package a protocol needs."""
    message = known_implementations.get(protocol, {}).get("err", str(error))
    return f"{message}: {sys.executable} -m pip install {_PACKAGES.get(protocol, '...')}"


def _make(kind: Any, url: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    arguments = {**kind._get_kwargs_from_urls(url), **arguments}
    return kind(**arguments, skip_instance_cache=True), kind._strip_protocol(url).rstrip("/")


def _s3_arguments() -> dict[str, Any]:
    from aiobotocore.httpsession import AIOHTTPSession

    class NoRedirects(AIOHTTPSession):  # type: ignore[misc]
        """HTTP session that follows no redirects: a server must not redirect requests to other machines."""

        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    once = {"mode": "standard", "total_max_attempts": 1}
    return {"retries": once, "http_session_cls": NoRedirects}


def _http_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for the HTTP file system, extended by time limits, login and a limit of redirects.

    A redirect is an error, because a server must not redirect requests to other machines.
    """
    import aiohttp

    waits = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
    client: dict[str, Any] = {"timeout": waits}
    if "password" in arguments:
        client["auth"] = aiohttp.BasicAuth(arguments.pop("username", ""), arguments.pop("password"))
    return {"encoded": True, "max_redirects": 1, "client_kwargs": client, **arguments}


SECONDS = 600.0  # for a complete response, also if it comes a byte at a time
LISTING = 3600.0  # seconds for all pages of one listing
MOST_KEYS = 2_000_000  # of one listing
_PART = 2**20  # bytes
_HTTP, _S3 = ("http", "https"), ("s3", "s3a")


def content(system: Any, protocol: str, path: str, most: int) -> bytes:
    """Read a file, and return its bytes. Raises the errors of the file system.

    A file of more than ``most`` bytes need not be read to its end. At least ``most`` + 1 bytes are returned,
    so that the caller notices.
    """
    read = {**dict.fromkeys(_HTTP, _read_http), **dict.fromkeys(_S3, _read_s3)}.get(protocol)
    if read is None:
        return bytes(system.cat_file(path))
    data: bytes = sync(system.loop, read, system, path, most, timeout=SECONDS)
    return data


def list_objects(system: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return facts about all objects below a path of S3, by their names.

    Raises NeedsHuman if there are too many objects, and the errors of the file system.
    """
    objects: dict[str, dict[str, Any]] = sync(system.loop, _s3_listing, system, path, timeout=LISTING)
    return objects


async def _read_http(system: Any, url: str, most: int) -> bytes:
    session = await system.set_session()
    async with session.get(system.encode_url(url), **system.kwargs) as answer:
        system._raise_not_found_for_status(answer, url)
        return await _read_bounded(answer.content, most)


async def _read_s3(system: Any, path: str, most: int) -> bytes:
    bucket, key, version = system.split_path(path)
    versioned = {"VersionId": version} if version else {}
    answer = await system._call_s3("get_object", Bucket=bucket, Key=key, **versioned)
    try:
        return await _read_bounded(answer["Body"], most)
    finally:
        answer["Body"].close()


async def _read_bounded(stream: Any, most: int) -> bytes:
    data = bytearray()
    while len(data) <= most and (part := await stream.read(min(_PART, most + 1 - len(data)))):
        data += part
    return bytes(data)


async def _s3_listing(system: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return the objects below a path (see ``list_objects``).

    Repeated names count toward the limit, too, because a faulty server may send pages without end.
    """
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    bucket, key, _ = system.split_path(path)
    prefix = f"{key.rstrip('/')}/" if key else ""
    objects: dict[str, dict[str, Any]] = {}
    count = 0
    try:
        async for info in system._iterdir(bucket, delimiter="", prefix=prefix):
            objects[info["name"]] = info
            count += 1
            if count > MOST_KEYS:
                raise NeedsHuman(f"{path} lists more than {MOST_KEYS:,} keys: set a narrower `url`")
    except ClientError as error:
        raise translate_boto_error(error) from error
    return objects
