"""SMB servers (Samba, Windows) as a read-only fsspec file system.

fsspec's own file system is not used. It sends a request for each file of a listing, and locks the files that
it reads. It has one pool of connections for the whole program, so one source would use another source's
login.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import finalize

import smbclient
from fsspec import AbstractFileSystem
from fsspec.utils import infer_storage_options
from smbprotocol.exceptions import SMBOSError, SMBResponseException

_SECONDS = 30  # time limit of a login
# [MS-ERREF] 2.3.1: wrong password, account restricted, hours, workstation, password expired, disabled, logon
# type, account expired, password must change, locked out.
_NO_LOGIN = {
    *(0xC000006D, 0xC000006E, 0xC000006F, 0xC0000070, 0xC0000071, 0xC0000072),
    *(0xC000015B, 0xC0000193, 0xC0000224, 0xC0000234),
}
_NO_SHARE = 0xC00000CC
_Info = dict[str, Any]


class Smb(AbstractFileSystem):  # type: ignore[misc]
    """File system of an SMB server. Paths begin with the share: ``/share/folder/file``."""

    protocol = "smb"

    def __init__(self, host: str, port: int = 445, **login: Any) -> None:
        """Store the login for later requests; nothing is sent yet.

        ``login``: username, password, encrypt and timeout for ``smbclient.register_session``.
        """
        super().__init__()
        self._host = host
        own: _Info = {"port": port, "connection_cache": {}}
        finalize(self, _close, own["connection_cache"]).atexit = False
        self._asking = {"connection_timeout": _SECONDS, **login, **own}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(infer_storage_options(path)["path"])

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> _Info:
        parts = infer_storage_options(path)
        return {key: parts[key] for key in ("host", "port", "username") if key in parts}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        with _translate_errors(), smbclient.scandir(self._unc(path), **self._asking) as entries:
            listed = [_entry(f"{path.rstrip('/')}/{entry.name}", entry) for entry in entries]
        return listed if detail else [info["name"] for info in listed]

    def info(self, path: str, **_: Any) -> _Info:
        """Return facts about a file, in the same form as a listing has them."""
        with _translate_errors():
            status = smbclient.stat(self._unc(path), **self._asking)
        return _info(path, "file", status.st_size, status.st_mtime_ns // 1000)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        how = {"mode": "rb", "share_access": "rwd", **self._asking}
        with _translate_errors(), smbclient.open_file(self._unc(path), **how) as file:
            return bytes(file.read()[start:end])

    def _unc(self, path: str) -> str:
        below = path.replace("/", "\\")
        return f"\\\\{self._host}{below}"


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert errors of smbclient: a failed login to PermissionError, a missing share to FileNotFoundError.

    smbclient logs in with the first request, so any request may raise these errors.
    """
    try:
        yield
    except (SMBResponseException, SMBOSError) as error:
        status = getattr(error, "ntstatus", getattr(error, "status", None))
        if status in _NO_LOGIN:
            raise PermissionError(str(error)) from error
        if status == _NO_SHARE:
            raise FileNotFoundError(str(error)) from error
        raise


def _entry(path: str, entry: Any) -> _Info:
    info = entry.smb_info
    kind = "link" if entry.is_symlink() else "directory" if entry.is_dir() else "file"
    return _info(path, kind, info.end_of_file, int(info.last_write_time.timestamp() * 1e6 + 0.5))


def _info(path: str, kind: str, size: int, microseconds: int) -> _Info:
    return {"name": path, "type": kind, "size": size, "mtime": microseconds / 1e6}


def _close(connections: dict[str, Any]) -> None:
    """Close connections without a message to the server, which may be unreachable."""
    for connection in connections.values():
        connection.disconnect(close=False)
