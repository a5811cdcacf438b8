"""Properties of Office documents (DOCX, PPTX, XLSX): title, author, dates, language."""

from typing import Any

from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.package import NamedParts, Package

_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp", ".emf", ".wmf")
_PART = "docProps/core.xml"
_DEFAULTS = ("PowerPoint Presentation", "Word Document", "Microsoft Word - ")  # nobody chose these


def pictures_only(package: NamedParts, composer: Composer) -> tuple[str, ...]:
    """Report the pictures of a document without text as lost, and name OCR as the remedy."""
    pictures = sum(
        name.lower().endswith(_PICTURES) and "thumbnail" not in name.lower() for name in package.names
    )
    if composer.blocks or not pictures:
        return ()
    return (f"holds only pictures ({pictures:,}): save the document as PDF, so that OCR reads them",)


def about(package: Package, composer: Composer) -> dict[str, Any]:
    """Return title, language, author and dates as fields of Document, and in ``lost`` unread pictures.

    Raises BadDocument if the part with the properties is damaged.
    """
    root = package.optional(_PART)
    texts = {element.tag.rpartition("}")[2]: " ".join((element.text or "").split()) for element in root}
    title = texts.get("title", "")
    return {
        "title": None if title.startswith(_DEFAULTS) else title,
        "language": texts.get("language"),
        "extra": {
            "author": texts.get("creator"),
            "created": texts.get("created"),  # dates in ISO 8601, as the format has them
            "modified": texts.get("modified"),
        },
        "lost": pictures_only(package, composer),
    }
