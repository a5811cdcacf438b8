"""Whether a Chroma server answers."""

from http.client import HTTPConnection, HTTPException, HTTPSConnection


def heartbeat(host: str, port: int, token: str | None, patience: float, *, ssl: bool = False) -> bool:
    """``patience``: seconds for each step of the request."""
    connection = (HTTPSConnection if ssl else HTTPConnection)(host, port, timeout=patience)
    try:
        headers = {"X-Chroma-Token": token, "Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/api/v2/heartbeat", headers=headers)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
