"""HTTP requests to a server elsewhere, by httpx: with TLS and the proxies that the environment names."""

from collections.abc import Mapping

import httpx

from ingestor.chroma.api.values import ChromaAnswer, NoAnswer, NoConnection


class ProxiedRequests:
    """``base``: scheme, host and port. ``timeout``, ``connecting``: see direct.py."""

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        timeout: float,
        connecting: float,
        *,
        tls: bool,
        proxies: bool,
    ) -> None:
        self._base = base
        self._session = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=connecting),
            headers=dict(headers),
            verify=tls,  # without TLS, the machine's certificates are not read
            trust_env=proxies,
        )

    def close(self) -> None:
        self._session.close()

    def send(self, method: str, path: str, body: bytes | None) -> ChromaAnswer:
        """Raises NoConnection and NoAnswer."""
        address = f"{self._base}{path}"
        try:
            said = self._session.request(method, address, content=body)
        except httpx.ConnectTimeout as error:
            raise NoConnection(f"at {self._base}: {error}") from error
        except httpx.TimeoutException as error:
            raise NoAnswer from error
        except httpx.TransportError as error:
            raise NoConnection(f"at {self._base}: {error}") from error
        return ChromaAnswer(said.status_code, said.content, said.headers, address)
