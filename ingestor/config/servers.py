"""Options of Chroma's server, of the service port, and of searches at it. Pure."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from ingestor.config.quotas import CLOUD, UNBOUNDED, Quotas
from ingestor.registry import Host, Options, require_match
from ingestor.units import Duration

HeaderName = Annotated[
    str, require_match(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "must be the name of an HTTP header, such as X-Token")
]
Url = Annotated[str, require_match(r"https?://[^\s?#]+", "must be a URL such as https://search.example.org")]
UrlWithoutUser = Annotated[
    str, require_match(r"https?://[^\s?#@]+", "must be a URL such as http://127.0.0.1:8080, without a user")
]
HostName = Annotated[
    str, require_match(r"[A-Za-z0-9_.-]+", "must be a host name alone, without http://, a port or a path")
]
Port = Annotated[int, Field(ge=1, le=65535)]


class ReaderToken(Options):
    """A token, and what programs that send the token may do."""

    token: SecretStr | None = Field(
        default=None,
        description="token of the entry; without one the entry holds for everybody who reaches the port",
    )
    may: Literal["read", "write"] = Field(
        default="read",
        description="`read`: `get`, `query`, `count` and descriptions; `write`: also create, change and "
        "delete collections and records",
    )


class Supervised(Options):
    """A Chroma server that ingestor starts, supervises and stops (the usual way)."""

    path: Path = Field(default=Path("chroma"), description="folder of Chroma's data")
    port: Port = Field(default=8000, description="port to listen on")
    host: Host = Field(
        default="127.0.0.1", description="address to listen on; programs on other machines need a `token`"
    )
    hosts: tuple[HostName, ...] = Field(
        default=(),
        description="further host names of the server; requests for names other than these, `host`, "
        "`localhost` or an address are refused",
    )
    token: SecretStr | None = Field(
        default=None,
        description="token of readers, sent as bearer token or X-Chroma-Token; without one, programs of "
        "this user and of root on this machine may read",
    )
    tokens: tuple[ReaderToken, ...] = Field(
        default=(), description="more tokens, each with its own rights, see below"
    )
    embedded: bool = Field(default=False, description="`false`: a server on `port`")

    @property
    def rights(self) -> list[tuple[str | None, str]]:
        """Return pairs of token and right, which is "read" or "write".

        None as the token stands for everybody who reaches the port.
        """
        first = [ReaderToken(token=self.token)] if self.token else []
        return [
            (each.token.get_secret_value() if each.token else None, each.may)
            for each in (*first, *self.tokens)
        ]


class Prices(Options):
    """Prices of a Chroma server in any currency, for each gibibyte of records."""

    written: float = Field(default=0.0, ge=0, description="price per GiB written")
    stored: float = Field(default=0.0, ge=0, description="price per GiB stored for a month")


class RemoteChroma(Options):
    """A Chroma server that runs already: another machine's, distributed Chroma, or Chroma Cloud."""

    host: Host = Field(description="host name or address of the server")
    port: Port = Field(default=8000, description="port of the server")
    token: SecretStr | None = Field(default=None, description="bearer token to send")
    ssl: bool = Field(default=False, description="connect with TLS")
    tenant: Annotated[str, Field(min_length=1)] = Field(
        default="default_tenant", description="tenant; must exist"
    )
    database: Annotated[str, Field(min_length=1)] = Field(
        default="default_database", description="database of the tenant; must exist"
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="secret headers of each request, for a proxy in front of the server"
    )
    quotas: Literal["auto", "cloud", "none"] | Quotas = Field(
        default="auto",
        description="limits of the server: `cloud` as Chroma Cloud publishes, `none`, or a mapping; "
        "`auto`: `cloud` if `host` is in trychroma.com",
    )
    prices: Prices = Field(default=Prices(), description="prices for `ingestor plan`")

    @property
    def bounds(self) -> Quotas:
        if isinstance(self.quotas, Quotas):
            return self.quotas
        hosted = self.host == "trychroma.com" or self.host.endswith(".trychroma.com")
        return CLOUD if self.quotas == "cloud" or (self.quotas == "auto" and hosted) else UNBOUNDED


class Embedded(Options):
    """A Chroma server that each run starts on a free port of this machine."""

    path: Path = Field(default=Path("chroma"), description="folder of Chroma's data")
    embedded: bool = Field(default=True, description="`true`: a server of each run, on a free port")


Chroma = Supervised | RemoteChroma | Embedded


class Http(Options):
    """The service port of the daemon: health, metrics, embeddings. `http: false` turns it off."""

    host: Host = Field(
        default="127.0.0.1", description="address to listen on; any but loopback needs a `token`"
    )
    port: Port = Field(default=8001, description="port to listen on")
    hosts: tuple[HostName, ...] = Field(
        default=(),
        description="further host names of the port; requests for names other than these, `host`, "
        "`localhost` or an address are refused",
    )
    token: SecretStr | None = Field(
        default=None, description="bearer token of clients; `/healthz` and `/readyz` need none"
    )
    public_url: Url | None = Field(
        default=None,
        description="address for readers, such as `https://search.example.org`; default: `http://`, "
        "host and port",
    )
    readers: Literal["auto", "service", "model"] = Field(
        default="auto",
        description="how `query(query_texts=...)` of Chroma's clients embeds: `service` by this port, "
        "`model` in the reader's process; `auto`: `service` if Chroma listens on loopback, or"
        " if `host` or `public_url` is set",
    )

    @property
    def url(self) -> str:
        """Return the URL of the service port for programs that search, without a slash at the end."""
        host = local_address(self.host)
        own = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        return (self.public_url or own).rstrip("/")


class Rerank(Options):
    """A cross-encoder that reorders the first hits of every search."""

    model: str | None = Field(
        default=None,
        min_length=1,
        description="cross-encoder of sentence-transformers, a folder or a name on the Hugging Face hub; "
        "needs the extra `torch`. With `url`: the model's name there",
    )
    url: UrlWithoutUser | None = Field(
        default=None,
        description="address of a `/rerank` server: text-embeddings-inference's form, or, with `model`, "
        "that of Cohere, Jina and vLLM",
    )
    api_key: SecretStr | None = Field(default=None, description="API key of the server")
    hits: int = Field(default=20, ge=2, le=100, description="hits to rerank")
    timeout: Duration = Field(
        default=2.0,
        gt=0,
        le=60,
        description="time limit of one search; later, hits keep the order of the search, and the "
        "answer reports that",
    )

    @model_validator(mode="after")
    def _needs_one(self) -> "Rerank":
        if self.model is None and self.url is None:
            raise ValueError("needs `model` (a cross-encoder) or `url` (a reranking server)")
        return self


class Search(Options):
    """Options for answering questions, by the service port and by `ingestor query`."""

    rerank: Rerank | None = Field(default=None, description="reranker, see below; default: none")


def local_address(host: str) -> str:
    """Return the address by which a client on this machine reaches a server that listens on ``host``.

    If the server listens on all addresses (``0.0.0.0`` or ``::``), this is the loopback address.
    """
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
