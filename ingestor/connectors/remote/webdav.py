"""Files over WebDAV by webdav4's file system, with every name in a path percent-encoded.

webdav4's client does not encode ``#``, ``?`` and ``%``, and so requests another path.
"""

from typing import Any
from urllib.parse import quote

from webdav4.client import Client
from webdav4.fsspec import WebdavFileSystem


class _EncodingClient(Client):  # type: ignore[misc]
    def join_url(self, path: str, add_trailing_slash: bool = False) -> Any:
        parts = [*filter(None, (*self.base_url.path.split("/"), *path.split("/")))]
        encoded = "/" + quote("/".join(parts)) + "/" * add_trailing_slash
        base = self.base_url
        return base.copy_with(raw_path=encoded.encode())


class Webdav(WebdavFileSystem):  # type: ignore[misc]
    """File system of a WebDAV server."""

    def __init__(self, base_url: str, auth: Any = None, **login: Any) -> None:
        super().__init__(base_url, client=_EncodingClient(base_url, auth=auth, **login))

    def ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        """Return the entries of a folder.

        A slash is added to the path, because webdav4 would strip spaces at its end.
        """
        return list(super().ls(f"{path.rstrip('/')}/", detail=detail, **more))
