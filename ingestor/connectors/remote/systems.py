"""Open the file system of an address, read its files and list its folders, within bounds of size and time.

Defaults of a package that wait without limit or trust unknown servers are replaced; ``options`` override
them. The size in a listing may be wrong: a file may be larger, or have no end. Only the requested bytes are
kept.
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
    """Return the file system, and the path of the address in it. Raises the errors of the file system."""
    protocol, given = url.partition("://")[0], dict(options)
    if protocol in ("sftp", "ssh"):
        from ingestor.connectors.remote.sftp import Sftp

        return _make(Sftp, url, given)
    if protocol == "smb":
        from ingestor.connectors.remote.smb import Smb

        return _make(Smb, url, given)
    if protocol in ("http", "https"):
        given = _http_arguments(given)
    elif protocol in ("webdav", "dav"):
        from ingestor.connectors.remote.webdav import Webdav

        if "password" in given:  # it needs a tuple, which YAML does not have
            given["auth"] = (given.pop("username", ""), given.pop("password"))
        return _make(Webdav, url, given)
    elif protocol in ("s3", "s3a"):  # s3fs itself makes five attempts
        given["config_kwargs"] = {**_s3_arguments(), **given.get("config_kwargs", {})}
    elif protocol in ("gs", "gcs"):
        given = {"requests_timeout": _SECONDS, **given}
    elif protocol in ("az", "abfs"):
        given = {"connection_timeout": int(_SECONDS), "read_timeout": int(_SECONDS), **given}
    system, root = url_to_fs(url, skip_instance_cache=True, **given)
    return system, root.rstrip("/")


def describe_missing(protocol: str, error: ImportError) -> str:
    """Return the message for a package that is not installed."""
    wanted = known_implementations.get(protocol, {}).get("err", str(error))
    return f"{wanted}: {sys.executable} -m pip install {_PACKAGES.get(protocol, '...')}"


def _make(kind: Any, url: str, given: dict[str, Any]) -> tuple[Any, str]:
    arguments = {**kind._get_kwargs_from_urls(url), **given}
    return kind(**arguments, skip_instance_cache=True), kind._strip_protocol(url).rstrip("/")


def _s3_arguments() -> dict[str, Any]:
    from aiobotocore.httpsession import AIOHTTPSession

    class NoRedirects(AIOHTTPSession):  # type: ignore[misc]
        """Session without redirects: a server must not redirect requests to other machines."""

        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    once = {"mode": "standard", "total_max_attempts": 1}
    return {"retries": once, "http_session_cls": NoRedirects}


def _http_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that make redirects errors: a server must not redirect requests to other machines."""
    import aiohttp

    waits = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
    client: dict[str, Any] = {"timeout": waits}
    if "password" in given:
        client["auth"] = aiohttp.BasicAuth(given.pop("username", ""), given.pop("password"))
    return {"encoded": True, "max_redirects": 1, "client_kwargs": client, **given}


SECONDS = 600.0  # for a whole answer, also if it comes a byte at a time
LISTING = 3600.0  # seconds for all pages of one listing
MOST_KEYS = 2_000_000  # of one listing
_PART = 2**20  # bytes
_HTTP, _S3 = ("http", "https"), ("s3", "s3a")


def content(system: Any, protocol: str, path: str, most: int) -> bytes:
    """Return a file's bytes; at least ``most`` + 1 of a longer file. Raises the errors of the file system."""
    read = {**dict.fromkeys(_HTTP, _read_http), **dict.fromkeys(_S3, _read_s3)}.get(protocol)
    if read is None:
        return bytes(system.cat_file(path))
    data: bytes = sync(system.loop, read, system, path, most, timeout=SECONDS)
    return data


def list_objects(system: Any, place: str) -> dict[str, dict[str, Any]]:
    """Return every object below a path of S3, by name. Raises NeedsHuman if there are too many."""
    objects: dict[str, dict[str, Any]] = sync(system.loop, _s3_listing, system, place, timeout=LISTING)
    return objects


async def _read_http(system: Any, url: str, most: int) -> bytes:
    session = await system.set_session()
    async with session.get(system.encode_url(url), **system.kwargs) as answer:
        system._raise_not_found_for_status(answer, url)
        return await _read_bounded(answer.content, most)


async def _read_s3(system: Any, path: str, most: int) -> bytes:
    bucket, key, version = system.split_path(path)
    which = {"VersionId": version} if version else {}
    answer = await system._call_s3("get_object", Bucket=bucket, Key=key, **which)
    try:
        return await _read_bounded(answer["Body"], most)
    finally:
        answer["Body"].close()


async def _read_bounded(stream: Any, most: int) -> bytes:
    data = bytearray()
    while len(data) <= most and (part := await stream.read(min(_PART, most + 1 - len(data)))):
        data += part
    return bytes(data)


async def _s3_listing(system: Any, place: str) -> dict[str, dict[str, Any]]:
    """List a path of S3. Repeated keys count towards the limit, too, since pages may never end."""
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    bucket, key, _ = system.split_path(place)
    prefix = f"{key.rstrip('/')}/" if key else ""
    objects: dict[str, dict[str, Any]] = {}
    count = 0
    try:
        async for info in system._iterdir(bucket, delimiter="", prefix=prefix):
            objects[info["name"]] = info
            count += 1
            if count > MOST_KEYS:
                raise NeedsHuman(f"{place} lists more than {MOST_KEYS:,} keys: name a narrower `url`")
    except ClientError as error:
        raise translate_boto_error(error) from error
    return objects
