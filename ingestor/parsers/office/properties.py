"""Properties of Office documents (DOCX, PPTX, XLSX): title, author, dates, language."""

from dataclasses import dataclass

from ingestor.model import Scalar
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.package import NamedParts, Package

_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp", ".emf", ".wmf")
_PART = "docProps/core.xml"
_DEFAULTS = ("PowerPoint Presentation", "Word Document", "Microsoft Word - ")  # nobody chose these


@dataclass(frozen=True, slots=True)
class Properties:
    title: str | None = None
    language: str | None = None
    extra: tuple[tuple[str, Scalar], ...] = ()  # author, created, modified; dates as the format has them: ISO


def pictures_only(package: NamedParts, composer: Composer) -> tuple[str, ...]:
    """Report the pictures of a document without text as lost, and name OCR as the remedy."""
    pictures = sum(
        name.lower().endswith(_PICTURES) and "thumbnail" not in name.lower() for name in package.names
    )
    if composer.blocks or not pictures:
        return ()
    return (f"holds only pictures ({pictures:,}): save the document as PDF, so that OCR reads them",)


def about(package: Package) -> Properties:
    """Read the properties. Raises BadDocument if that part is damaged."""
    root = package.optional(_PART)
    texts = {element.tag.rpartition("}")[2]: " ".join((element.text or "").split()) for element in root}
    title = texts.get("title", "")
    facts = {
        "author": texts.get("creator"),
        "created": texts.get("created"),
        "modified": texts.get("modified"),
    }
    return Properties(
        title=None if title.startswith(_DEFAULTS) else title or None,
        language=texts.get("language") or None,
        extra=tuple((key, value) for key, value in facts.items() if value),
    )
