"""Open files beneath a folder, component by component, so that no symbolic link can lead outside.

``root`` is a descriptor of the folder. A *real* path holds no symbolic link. It is relative to ``root``, or
absolute if the options allow a link out of the folder. If a component was replaced by a link meanwhile,
opening it raises OSError (ELOOP or ENOTDIR). The last functions identify the mounted file system.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a FIFO must not block


@contextmanager
def directory(root: int, real: str) -> Iterator[int]:
    """Open a directory and yield its descriptor; "" is the root itself. Raises OSError."""
    descriptor = os.dup(root)
    try:
        if real.startswith("/"):
            descriptor = _step(descriptor, real)
        else:
            for name in filter(None, real.split("/")):
                descriptor = _step(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def file(root: int, real: str) -> Iterator[int]:
    """Open a file for reading and yield its descriptor. Raises OSError."""
    parent, name = os.path.split(real)
    with directory(root, parent) as holder:
        descriptor = os.open(name, _FILE, dir_fd=holder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def status(root: int, real: str) -> os.stat_result:
    """Return ``lstat`` of a file or directory. Raises OSError."""
    parent, name = os.path.split(real)
    with directory(root, parent) as holder:
        return os.stat(name or ".", dir_fd=holder, follow_symlinks=False)


def real_path(root: str, path: str) -> str:
    """Follow the links in ``path``.

    Return the target, relative to ``root`` if it lies beneath, else absolute.

    ``root``: path of the folder, without links. The target need not exist.
    """
    target = os.path.realpath(path)
    if target == root:
        return ""
    return target.removeprefix(root.rstrip("/") + "/")


def _step(descriptor: int, name: str) -> int:
    """Open the directory ``name`` in the directory ``descriptor``, and close the latter unless that fails."""
    below = os.open(name, _DIRECTORY, dir_fd=descriptor)
    os.close(descriptor)
    return below


# Changes made by another machine (or by the host of a container) raise no inotify events here.
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|9p|afs|ceph|glusterfs|lustre|beegfs|gpfs|ocfs2|gfs2|coda|davfs"
    r"|virtiofs|vboxsf|vmhgfs|prl_fs|fakeowner|osxfs|fuse|fuse\..+"
)


def identity(folder: int) -> str:
    """Return a value that changes when another file system is mounted at the folder, but not at a restart.

    The value is the file system's id if it has one (ext4, btrfs, tmpfs, ...), else the mounted source (nfs,
    cifs). Raises OSError.
    """
    if identifier := os.statvfs(folder).f_fsid:
        return f"filesystem {identifier:x}"
    return "mount " + " ".join(_find_mount(os.fstat(folder).st_dev) or ("unknown",))


def is_remote(path: str) -> bool:
    """Return whether other machines can change the files at ``path`` without events. Raises OSError."""
    mounted = _find_mount(Path(path).stat().st_dev)
    return mounted is not None and bool(_REMOTE.fullmatch(mounted[0]))


def parse(mountinfo: str, device: int) -> tuple[str, str] | None:
    """Return type and source of a mounted file system, such as ``("nfs", "host:/share")``; None if unknown.

    ``mountinfo``: text of /proc/self/mountinfo, see proc(5). ``device``: its ``st_dev``.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [wanted]:
            kind, source, *_ = after.split(" ")
            return kind, source
    return None


def _find_mount(device: int) -> tuple[str, str] | None:
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None  # not Linux
    return parse(mountinfo, device)
