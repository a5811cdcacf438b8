"""Names of files in keys with "/" between folders, as ``pathlib`` reads them, which costs much more. Pure."""

from pathlib import PurePosixPath


def file_name(key: str) -> str:
    """Return ``PurePosixPath(key).name``, in most cases without making a path."""
    name = key.rpartition("/")[2]
    return PurePosixPath(key).name if name in ("", ".") else name


def suffix(name: str) -> str:
    """Return ``PurePosixPath(name).suffix`` of a name without "/"."""
    at = name.rfind(".")
    return name[at:] if 0 < at < len(name) - 1 else ""
