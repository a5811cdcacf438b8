"""Client of a running daemon's service port. Uses only the standard library, which imports fast."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from ingestor.config.servers import Http, local_address
from ingestor.search.values import Answer, Question, answer_of

OWNER = "X-Ingestor-Owner"  # header: mark of the state whose daemon must answer
_MOST = 200_000_000  # bytes of an answer
_PATIENCE = 60.0  # seconds

Ask = Callable[[str, str, object], Awaitable[tuple[int, Any]]]
"""Sends method, path and body to the daemon. Returns status and parsed body. May raise DaemonAway."""


class DaemonAway(Exception):
    """Error: no daemon answers at the service port. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class DaemonClient:
    """Client of the service port of a running daemon. Any thread may use a client.

    ``owner``: identifies the state folder. A daemon with another state folder refuses the requests.
    """

    http: Http
    owner: str

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request to the daemon.

        Return the HTTP status and the parsed body, which is None if it is not JSON. Raises OSError if no
        daemon answers.
        """
        host = local_address(self.http.host)
        token = self.http.token
        headers = {OWNER: self.owner}
        headers |= {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}
        connection = HTTPConnection(host, self.http.port, timeout=_PATIENCE)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            with suppress(ValueError):
                return answer.status, json.loads(answer.read(_MOST))
            return answer.status, None
        except HTTPException as error:
            raise ConnectionError(f"{host}:{self.http.port} does not answer in HTTP: {error}") from error
        finally:
            connection.close()

    def search(self, question: Question) -> Answer | None:
        """Have the daemon answer a question. Return None if it does not run or cannot answer."""
        try:
            status, body = self.ask("POST", "/search", asdict(question))
            return answer_of(body) if status == 200 else None
        except (OSError, ValueError):
            return None
