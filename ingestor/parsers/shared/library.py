"""Trees that the library anydoc makes of a document."""

from typing import TYPE_CHECKING, Literal

from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from anydoc import Document

Format = Literal["doc", "docx", "odt", "ppt", "pptx", "odp", "rtf", "xlsx"]


def read_by_library(data: bytes, kind: Format) -> "Document":
    """Read a document with anydoc. Raises BadDocument."""
    import anydoc

    try:
        return anydoc.to_document(data, kind)
    except anydoc.EncryptedError:
        raise BadDocument("is encrypted; save it without a password, or exclude it") from None
    except anydoc.ResourceLimitError as error:
        raise BadDocument(f"is larger or deeper than is read ({error}); split it, or exclude it") from None
    except anydoc.ConvertError as error:
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which no other handler takes
            raise
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
