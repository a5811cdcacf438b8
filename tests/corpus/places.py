"""What a folder may hold besides sound files: odd names, no files, links, ignore files, files that change.

What changes goes on changing for as long as its thread lives: until the interpreter ends.
"""

import itertools
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from tests.corpus.case import Case

_EVIL = "*a*a*a*a*a*a*a*a*a*a*b\n"
_NAMES = {
    "newline": b"a\nb.txt", "escape": b"a\x1b[31mb\x07.txt", "bidi": "a\u202etxt.exe\u2066.txt".encode(),
    "not-utf-8": b"a\xff\xfe\xc0.txt", "longest": b"n" * 251 + b".txt",
    "longest-wide": "漢".encode() * 83 + b".txt", "mark": b"!", "backslashes": b"..\\..\\a.txt",
    "spaces": b" \t .txt", "percent": b"%2e%2e%2f%00.txt", "quotes": b"a'\"; DROP TABLE documents; --.txt",
    "surrogate": b"a\xed\xa0\x80.txt", "glob": b"[a-z]*{b,c}?.txt",
    "control-1": "a\u0085\u009bb.txt".encode(), "dots": b"...txt", "option": b"--config=x.txt",
}  # fmt: skip


def cases() -> list[Case]:
    named = [Case(f"name-{kind}", _named(name)) for kind, name in _NAMES.items()]
    return [*named, *(Case(name, put, name in _REFUSED, name in _RESTLESS) for name, put in _PLACES.items())]


def _named(name: bytes) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        with open(os.fsencode(folder) + b"/" + name, "w") as file:
            file.write("a document of an odd name")

    return put


def _socket(folder: Path) -> None:
    opened = os.open(folder, os.O_PATH)  # the path of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{opened}/socket.txt")
    os.close(opened)


def _device(folder: Path) -> None:
    try:
        os.mknod(folder / "zero.txt", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:  # only root may make one
        (folder / "zero.txt").symlink_to("/dev/zero")


def _links(*targets: str) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        for at, target in enumerate(targets):
            (folder / f"{at}.txt").symlink_to(target)

    return put


def _ring(folder: Path) -> None:
    """Every folder has links to all others."""
    names = [f"d{n}" for n in range(12)]
    for name in names:
        (folder / name).mkdir()
        for other in names:
            (folder / name / f"to-{other}").symlink_to(f"../{other}")
        (folder / name / "up").symlink_to("..")


def _chain(folder: Path) -> None:
    for at in range(60):
        (folder / f"{at}.txt").symlink_to(f"{at + 1}.txt")
    (folder / "60.txt").write_text("at the end of the chain")


def _hard_links(folder: Path) -> None:
    (folder / "first.txt").write_text("one file of many names")
    for at in range(300):
        (folder / f"{at}.txt").hardlink_to(folder / "first.txt")


def _sparse(size: int, name: str = "sparse.txt") -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return put


def _ignoring(content: bytes) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        inner = _inner(folder)
        (inner / ".gitignore").write_bytes(content)

    return put


def _inner(folder: Path) -> Path:
    """A folder below, since a bad ignore file has all beside it wait."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / ("a" * 200)).write_text("judged by patterns")
    return inner


def _ignore_stack(folder: Path) -> None:
    """Patterns of many folders come together."""
    for _ in range(30):
        folder = folder / "d"
        folder.mkdir()
        (folder / ".gitignore").write_bytes(b"*a*b*c\n" * 1000)


def _closed(folder: Path) -> None:
    (folder / "closed.txt").write_text("nobody may read this")
    (folder / "closed.txt").chmod(0)


def _closed_folder(folder: Path) -> None:
    (folder / "closed").mkdir()
    (folder / "closed" / "in.txt").write_text("nobody may list this")
    (folder / "closed").chmod(0)


def _deep(folder: Path) -> None:
    """Deeper than a path may be long."""
    name = "d" * 200
    at = os.open(folder, os.O_RDONLY)
    for _ in range(40):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    with open("deep.txt", "w", opener=lambda path, flags: os.open(path, flags, dir_fd=at)) as file:
        file.write("far below")
    os.close(at)


def _crowd(folder: Path) -> None:
    for at in range(3000):
        (folder / f"{at}.txt").touch()


def _restless(folder: Path, step: Callable[[Path, int], object]) -> None:
    def work() -> None:
        for at in itertools.count():
            if not folder.exists():
                return
            try:
                step(folder, at)
            except FileNotFoundError:
                return
            threading.Event().wait(0.02)

    threading.Thread(target=work, daemon=True).start()


def _written(folder: Path, at: int) -> None:
    with (folder / "grows.txt").open("a") as file:
        file.write(f"line {at}\n")


def _replaced(folder: Path, at: int) -> None:
    (folder / "new").write_text(f"text {at}")
    (folder / "new").replace(folder / "replaced.txt")


def _changing(folder: Path, at: int) -> None:
    """By turns a file, a pipe, a link and a folder."""
    path = folder / "changing.txt"
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    match at % 4:
        case 0:
            path.write_text("a file")
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to("/etc/passwd")
        case _:
            path.mkdir()


def _moved(folder: Path, at: int) -> None:
    old, new = folder / f"d{at % 2}", folder / f"d{(at + 1) % 2}"
    if not old.exists() and not new.exists():
        old.mkdir()
        (old / "a.txt").write_text("moved about")
    elif old.exists():
        old.rename(new)


def _folders(folder: Path) -> None:
    for name in ("a.pdf", "b.zip", "c.eml", "!", "..."):
        (folder / name).mkdir()
        (folder / name / "in.txt").write_text("in a folder of an odd name")


_PLACES: dict[str, Callable[[Path], None]] = {
    "pipe": lambda folder: os.mkfifo(folder / "pipe.txt"),
    "socket": _socket,
    "device": _device,
    "link-loops": _links("0.txt", "2.txt", "1.txt"),
    "links-out": _links("/dev/zero", "/proc/self/mem", "/etc/passwd", "/proc/kmsg", "nowhere", "/"),
    "link-ring": _ring,
    "link-chain": _chain,
    "hard-links": _hard_links,
    "sparse": _sparse(49_000_000),
    "sparse-large": _sparse(2**40),
    "sparse-zip": _sparse(49_000_000, "sparse.zip"),
    "sparse-mail": _sparse(49_000_000, "sparse.eml"),
    "ignore-pattern": _ignoring(_EVIL.encode()),
    "ignore-classes": _ignoring(b"[[:alpha:]" * 5000 + b"\n" + b"[" * 900 + b"\n" + b"**/" * 300 + b"x\n"),
    "ignore-many": _ignoring(b"*a*a*b\n" * 30_000),
    "ignore-bytes": _ignoring(bytes(range(256)) * 20),
    "ignore-sparse": lambda folder: _sparse(1_500_000_000, ".gitignore")(_inner(folder)),
    "ignore-link": lambda folder: (_inner(folder) / ".gitignore").symlink_to("/dev/zero"),
    "ignore-pipe": lambda folder: os.mkfifo(_inner(folder) / ".gitignore"),
    "ignore-folder": lambda folder: (_inner(folder) / ".gitignore").mkdir(),
    "ignore-stack": _ignore_stack,
    "closed": _closed,
    "closed-folder": _closed_folder,
    "deep": _deep,
    "crowd": _crowd,
    "grows": lambda folder: _restless(folder, _written),
    "replaced": lambda folder: _restless(folder, _replaced),
    "changing": lambda folder: _restless(folder, _changing),
    "moved": lambda folder: _restless(folder, _moved),
    "folders": _folders,
    "empty": lambda folder: (folder / "empty.pdf").touch(),
}
_RESTLESS = {"grows", "replaced", "changing", "moved"}
_REFUSED = {"sparse-large", "ignore-many", "ignore-sparse", "ignore-stack"}
