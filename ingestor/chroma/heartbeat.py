"""Whether a Chroma server answers."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType


def heartbeat(
    host: str,
    port: int,
    token: str | None,
    patience: float,
    *,
    ssl: bool = False,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """``patience``: seconds for each step of the request. ``headers``: besides those of the token."""
    connection = (HTTPSConnection if ssl else HTTPConnection)(host, port, timeout=patience)
    try:
        of_token = {"X-Chroma-Token": token, "Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/api/v2/heartbeat", headers={**of_token, **headers})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
