"""A page as a browser takes it apart: its elements, its texts, and what would run in it."""

from collections.abc import Iterator
from html.parser import HTMLParser

import httpx

VOID = {"meta", "link", "input", "img", "image", "path", "rect"}


class Page(HTMLParser):
    """Fails where elements are not balanced."""

    def __init__(self, page: httpx.Response | str) -> None:
        super().__init__(convert_charrefs=True)
        self.status = page.status_code if isinstance(page, httpx.Response) else 200
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page.text if isinstance(page, httpx.Response) else page)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text += data
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)

    def token(self) -> str:
        """Return the token of the page's forms."""
        return next(str(one["value"]) for one in self.all("input") if one.get("name") == "form_token")
