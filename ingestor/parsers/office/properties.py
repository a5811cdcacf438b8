"""What Office documents (DOCX, PPTX, XLSX) say of themselves: title, author, dates, language."""

from dataclasses import dataclass

from ingestor.model import Scalar
from ingestor.parsers.shared.package import Package

_PART = "docProps/core.xml"
_DEFAULTS = ("PowerPoint Presentation", "Word Document", "Microsoft Word - ")  # nobody chose these


@dataclass(frozen=True, slots=True)
class Properties:
    title: str | None = None
    language: str | None = None
    extra: tuple[tuple[str, Scalar], ...] = ()  # author, created, modified; dates as the format has them: ISO


def about(package: Package) -> Properties:
    """Raises BadDocument when that part is damaged."""
    root = package.optional(_PART)
    said = {element.tag.rpartition("}")[2]: " ".join((element.text or "").split()) for element in root}
    title = said.get("title", "")
    found = {
        "author": said.get("creator"),
        "created": said.get("created"),
        "modified": said.get("modified"),
    }
    return Properties(
        title=None if title.startswith(_DEFAULTS) else title or None,
        language=said.get("language") or None,
        extra=tuple((key, value) for key, value in found.items() if value),
    )
