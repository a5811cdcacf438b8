"""Options that all connectors share which send HTTP requests."""

import base64
import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from ingestor.connectors.http.address import parse_allowed
from ingestor.connectors.http.client import Terms
from ingestor.connectors.http.url import normal, origin
from ingestor.registry import Options, require_match, tuning
from ingestor.units import Duration, Size


def _url(url: str) -> str:
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ValueError(
            "must not contain a user or password: set `user` and `password`, which are kept secret"
        )
    address = normal(url)
    if address is None:
        raise ValueError("must be an address such as https://docs.example.org/guide/")
    return address


Url = Annotated[str, AfterValidator(_url)]


def _entry(entry: str) -> str:
    parse_allowed([entry])
    return entry


class HttpOptions(Options):
    user: str | None = Field(default=None, description="user name, for sites with a login")
    password: SecretStr | None = Field(default=None, description="password")
    headers: dict[str, SecretStr] = Field(
        default={},
        description="request headers, sent only to the origins of the configured addresses: "
        '`{Authorization: "Bearer ${TOKEN}"}`',
    )
    allow_private: list[Annotated[str, AfterValidator(_entry)]] = Field(
        default=[],
        description="hosts, addresses or networks (`10.1.0.0/16`) to allow although not public; a host "
        "name does not allow link-local addresses",
    )
    contact: Annotated[str, require_match(r"[\x21-\x7e]*", "must be a URL or mail address")] = Field(
        default="",
        description="URL or mail address of yours for site owners; sent with requests",
    )
    delay: Duration = tuning(
        0.5, description="pause between two requests to a host; its robots.txt may ask for more"
    )
    timeout: Duration = tuning(60.0, gt=0, description="time limit of one request, to its last byte")
    max_size: Size = Field(default=50 * 10**6, description="larger documents are reported, not read")

    @model_validator(mode="after")
    def _login(self) -> "HttpOptions":
        if (self.user is None) != (self.password is None):
            raise ValueError("set both `user` and `password`, or neither")
        for name, value in self.headers.items():
            line = value.get_secret_value()
            if not (re.fullmatch(r"[A-Za-z0-9-]+", name) and line.isascii() and line.isprintable()):
                raise ValueError(
                    f"header {name!r} can't be sent: its name must be letters, digits "
                    "and -, its value one line of ASCII"
                )
        return self

    def terms(self, *urls: str) -> Terms:
        """Return the settings of an HTTP client. Secrets are sent only to the origins of ``urls``."""
        secrets = [(name, value.get_secret_value()) for name, value in self.headers.items()]
        if self.password is not None:
            pair = f"{self.user}:{self.password.get_secret_value()}".encode()
            secrets.append(("Authorization", f"Basic {base64.b64encode(pair).decode()}"))
        return Terms(
            frozenset(map(origin, urls)),
            tuple(secrets),
            parse_allowed(self.allow_private),
            self.contact,
            self.timeout,
            self.delay,
            self.max_size,
        )
