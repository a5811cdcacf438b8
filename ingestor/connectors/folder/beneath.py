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
    """Open a directory, and yield its descriptor until the context ends. Raises OSError.

    ``real``: real path of the directory; "" for the root itself.
    """
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
    """Open a file for reading, and yield its descriptor until the context ends. Raises OSError."""
    parent, name = os.path.split(real)
    with directory(root, parent) as holder:
        descriptor = os.open(name, _FILE, dir_fd=holder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def status(root: int, real: str) -> os.stat_result:
    """Return the status of a file or directory, without following a link (``lstat``). Raises OSError."""
    parent, name = os.path.split(real)
    with directory(root, parent) as holder:
        return os.stat(name or ".", dir_fd=holder, follow_symlinks=False)


def real_path(root: str, path: str) -> str:
    """Return ``path`` with all symbolic links resolved.

    The result is relative to ``root`` if it lies beneath, else absolute. ``root``: path of the folder,
    without links. The file need not exist.
    """
    target = os.path.realpath(path)
    if target == root:
        return ""
    return target.removeprefix(root.rstrip("/") + "/")


def _step(descriptor: int, name: str) -> int:
    """Open the subdirectory ``name`` of an open directory, and close the descriptor of that directory.

    If the subdirectory cannot be opened, the descriptor stays open.
    """
    below = os.open(name, _DIRECTORY, dir_fd=descriptor)
    os.close(descriptor)
    return below


# Changes made by another machine (or by the host of a container) raise no inotify events here.
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|9p|afs|ceph|glusterfs|lustre|beegfs|gpfs|ocfs2|gfs2|coda|davfs"
    r"|virtiofs|vboxsf|vmhgfs|prl_fs|fakeowner|osxfs|fuse|fuse\..+"
)


def identity(folder: int) -> str:
    """Return an identifier of the file system at a folder, which a restart of the machine does not change.

    By the identifier a scan notices that another file system was mounted there. It is the id of the file
    system (ext4, btrfs, tmpfs, ...); if there is no id, it is the mounted source (nfs, cifs). ``folder``:
    descriptor of the folder. Raises OSError.
    """
    if identifier := os.statvfs(folder).f_fsid:
        return f"filesystem {identifier:x}"
    return "mount " + " ".join(_find_mount(os.fstat(folder).st_dev) or ("unknown",))


def is_remote(path: str) -> bool:
    """Return whether ``path`` is on a network file system. Raises OSError.

    Such file systems send no events when other machines change files.
    """
    mounted = _find_mount(Path(path).stat().st_dev)
    return mounted is not None and bool(_REMOTE.fullmatch(mounted[0]))


def parse(mountinfo: str, device: int) -> tuple[str, str] | None:
    """Find a mounted file system.

    Return its type and source, such as ``("nfs", "host:/share")``; None if unknown. ``mountinfo``: text of
    /proc/self/mountinfo, see proc(5). ``device``: device number of a file (``st_dev``).
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
