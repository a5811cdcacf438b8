"""Limits of every request to a server of ours. Pure."""

from dataclasses import dataclass

from ingestor.http_server.access import HEAD_LIMIT


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Times are seconds."""

    connections: int = 128  # open ones; beyond them one that waits for its client is closed
    spare: int = 16  # connections beyond those, for ``always`` alone
    always: frozenset[str] = frozenset()  # paths that are answered on spare connections, too
    head: int = HEAD_LIMIT  # bytes of a request's line and headers
    fields: int = 100  # headers of a request
    prompt: float = 10.0  # for the head of a request, and for the first bytes of its body
    slowest: float = 20_000  # bytes a second of a body, in either direction
    linger: float = 2.0  # in which a client that still sends can read why it was refused
    keep_alive: float = 5.0  # for the next request on a connection
    penalty: float = 1.0  # before a wrong token is answered
    grace: float = 3.0  # for requests under way when the server stops

    def time_for(self, size: float) -> float:
        """Return the seconds that a body of ``size`` bytes may take."""
        return self.prompt + size / self.slowest
