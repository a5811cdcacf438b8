"""Names and suffixes of files in keys with "/", as ``pathlib`` gives them, but faster. Pure."""

from pathlib import PurePosixPath


def file_name(key: str) -> str:
    """Return ``PurePosixPath(key).name``, in most cases without constructing a path."""
    name = key.rpartition("/")[2]
    return PurePosixPath(key).name if name in ("", ".") else name


def suffix(name: str) -> str:
    """Return ``PurePosixPath(name).suffix``; ``name`` must not contain "/"."""
    at = name.rfind(".")
    return name[at:] if 0 < at < len(name) - 1 else ""
