"""Addresses on which a server of ours listens, and what they mean to clients. Pure."""


def local_address(host: str) -> str:
    """The address for a client on this machine: loopback, if the server listens on every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
