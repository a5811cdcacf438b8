"""An HTTP session for S3 without redirects: a server must not redirect requests to other machines."""

from typing import Any

from aiobotocore.httpsession import AIOHTTPSession


class NoRedirects(AIOHTTPSession):  # type: ignore[misc]
    """Returns a redirect as it is; botocore then decides by its status."""

    async def _get_session(self, proxy_url: str | None) -> "_Session":
        return _Session(await super()._get_session(proxy_url))


class _Session:
    def __init__(self, session: Any) -> None:
        self._session = session

    async def request(self, *words: Any, **options: Any) -> Any:
        return await self._session.request(*words, allow_redirects=False, **options)
