"""The file system mounted at a folder, and whether other machines can change it without an event here."""

import os
import re
from pathlib import Path

# Changes made by another machine (or by the host of a container) raise no inotify events here.
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|9p|afs|ceph|glusterfs|lustre|beegfs|gpfs|ocfs2|gfs2|coda|davfs"
    r"|virtiofs|vboxsf|vmhgfs|prl_fs|fakeowner|osxfs|fuse|fuse\..+"
)


def identity(folder: int) -> str:
    """Differs when another file system is mounted at the folder; the same after a restart. Raises OSError.

    The file system's own id where it has one (ext4, btrfs, tmpfs, ...), else the mounted source (nfs, cifs).
    """
    if identifier := os.statvfs(folder).f_fsid:
        return f"filesystem {identifier:x}"
    return "mount " + " ".join(_find_mount(os.fstat(folder).st_dev) or ("unknown",))


def is_remote(path: str) -> bool:
    """Whether files can change without this kernel's knowledge. Raises OSError."""
    mounted = _find_mount(Path(path).stat().st_dev)
    return mounted is not None and bool(_REMOTE.fullmatch(mounted[0]))


def parse(mountinfo: str, device: int) -> tuple[str, str] | None:
    """Type and source of the file system with that ``st_dev``, from the text of proc(5) mountinfo."""
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
