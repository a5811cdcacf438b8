"""Open the file system of an address, with the arguments that its package needs.

Defaults of a package that wait without limit or trust unknown servers are replaced; ``options`` override
them.
"""

import sys
from collections.abc import Mapping
from typing import Any

from fsspec.core import url_to_fs
from fsspec.registry import known_implementations

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
    """The file system, and the path of the address in it. Raises the errors of the file system."""
    protocol, given = url.partition("://")[0], dict(options)
    if protocol in ("sftp", "ssh"):
        from ingestor.connectors.remote.sftp import Sftp

        return _make(Sftp, url, given)
    if protocol == "smb":
        from ingestor.connectors.remote.smb import Smb

        return _make(Smb, url, given)
    if protocol in ("http", "https"):
        given = _http(given)
    elif protocol in ("webdav", "dav"):
        from ingestor.connectors.remote.webdav import Webdav

        if "password" in given:  # it needs a tuple, which YAML does not have
            given["auth"] = (given.pop("username", ""), given.pop("password"))
        return _make(Webdav, url, given)
    elif protocol in ("s3", "s3a"):  # s3fs itself makes five attempts
        given["config_kwargs"] = {**_s3(), **given.get("config_kwargs", {})}
    elif protocol in ("gs", "gcs"):
        given = {"requests_timeout": _SECONDS, **given}
    elif protocol in ("az", "abfs"):
        given = {"connection_timeout": int(_SECONDS), "read_timeout": int(_SECONDS), **given}
    system, root = url_to_fs(url, skip_instance_cache=True, **given)
    return system, root.rstrip("/")


def describe_missing(protocol: str, error: ImportError) -> str:
    """The message for a package that is not installed."""
    wanted = known_implementations.get(protocol, {}).get("err", str(error))
    return f"{wanted}: {sys.executable} -m pip install {_PACKAGES.get(protocol, '...')}"


def _make(kind: Any, url: str, given: dict[str, Any]) -> tuple[Any, str]:
    arguments = {**kind._get_kwargs_from_urls(url), **given}
    return kind(**arguments, skip_instance_cache=True), kind._strip_protocol(url).rstrip("/")


def _s3() -> dict[str, Any]:
    from ingestor.connectors.remote.s3 import NoRedirects

    once = {"mode": "standard", "total_max_attempts": 1}
    return {"retries": once, "http_session_cls": NoRedirects}


def _http(given: dict[str, Any]) -> dict[str, Any]:
    """Redirects are errors: a server must not redirect requests to other machines."""
    import aiohttp

    waits = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
    client: dict[str, Any] = {"timeout": waits}
    if "password" in given:
        client["auth"] = aiohttp.BasicAuth(given.pop("username", ""), given.pop("password"))
    return {"encoded": True, "max_redirects": 1, "client_kwargs": client, **given}
