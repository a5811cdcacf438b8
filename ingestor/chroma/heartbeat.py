"""Whether a Chroma server answers."""

from collections.abc import Mapping
from types import MappingProxyType

from ingestor.chroma.api.direct import DirectRequests
from ingestor.chroma.api.values import NoAnswer, NoConnection

_PATH = "/api/v2/heartbeat"


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
    of_token = {"X-Chroma-Token": token, "Authorization": f"Bearer {token}"} if token else {}
    sent = {**of_token, **headers}
    if ssl:
        return _answers_by_tls(host, port, patience, sent)
    requests = DirectRequests(host, port, sent, patience, patience)
    try:
        return requests.send("GET", _PATH, None).status == 200
    except (NoAnswer, NoConnection):
        return False
    finally:
        requests.close()


def _answers_by_tls(host: str, port: int, patience: float, headers: Mapping[str, str]) -> bool:
    from http.client import HTTPException, HTTPSConnection

    connection = HTTPSConnection(host, port, timeout=patience)
    try:
        connection.request("GET", _PATH, headers=dict(headers))
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
