"""Requests straight to httpx's transport.

What ``httpx.Client`` adds (cookies, redirects, logins, merging of addresses) takes half the time of a short
request, and a server on this machine needs none of it.
"""

from collections.abc import Callable
from functools import lru_cache

import httpx

Send = Callable[[str, str, bytes | None], httpx.Response]
"""A method, an address and a body to an answer that was read whole. It raises as ``httpx.Client.request``."""

_ADDRESSES = 256  # that are kept parsed


def direct(session: httpx.Client, transport: httpx.BaseTransport) -> Send:
    """``session``: of which headers and timeouts are taken; ``transport``: its own."""
    timeout, parsed = {"timeout": session.timeout.as_dict()}, lru_cache(_ADDRESSES)(httpx.URL)

    def send(method: str, address: str, body: bytes | None) -> httpx.Response:
        url = parsed(address)
        request = httpx.Request(method, url, headers=session.headers, content=body, extensions=timeout)
        try:
            answer = transport.handle_request(request)
            answer.request = request
            try:
                answer.read()
            finally:
                answer.close()
        except httpx.RequestError as error:
            error.request = request
            raise
        return answer

    return send


def through(session: httpx.Client) -> Send:
    """By the client itself: with the proxies of the environment."""
    return lambda method, address, body: session.request(method, address, content=body)
