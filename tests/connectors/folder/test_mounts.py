import os
from pathlib import Path

import pytest

from ingestor.connectors.folder.beneath import identity, is_remote, parse
from tests.connectors.folders import run_python, runs

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:44 / /mnt/team rw,relatime shared:9 master:3 - nfs4 server:/export rw,vers=4.2
32 27 0:45 / /mnt/laptop rw - fuse.sshfs me@laptop: rw
"""


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (os.makedev(254, 0), ("ext4", "/dev/vda")),
        (os.makedev(0, 44), ("nfs4", "server:/export")),
        (os.makedev(0, 45), ("fuse.sshfs", "me@laptop:")),
        (os.makedev(0, 4), None),
    ],
)
def test_mount_of_a_device_is_parsed(device: int, expected: tuple[str, str] | None) -> None:
    assert parse(MOUNTINFO, device) == expected


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "fuse"])
def test_remote_file_system_is_remote(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.folder.beneath._find_mount", lambda device: (kind, "source"))
    assert is_remote(str(tmp_path))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk"])
def test_local_file_system_is_not_remote(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.folder.beneath._find_mount", lambda device: (kind, "source"))
    assert not is_remote(str(tmp_path))


def test_identity_stays_while_the_same_file_system_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    roots = [os.open(path, os.O_RDONLY) for path in (tmp_path, tmp_path / "sub")]
    assert identity(roots[0]) == identity(roots[1])
    for root in roots:
        os.close(root)


_MOUNTING = """
import subprocess, sys
from ingestor.connectors.folder.connector import Folder, FolderOptions
path = sys.argv[1]
folder = Folder(FolderOptions(path=path))
said = [folder.identity()]
for source in ("one", "two"):
    subprocess.run(["mount", "-t", "tmpfs", source, path], check=True)
    said.append(folder.identity())
for _ in range(2):
    subprocess.run(["umount", path], check=True)
    said.append(folder.identity())
print([said.index(one) for one in said])
"""


def test_identity_is_that_of_what_is_mounted(tmp_path: Path) -> None:
    private = ("unshare", "--mount", "--propagation", "private")
    if not runs(*private):
        pytest.skip("may not mount here")
    assert run_python(_MOUNTING, str(tmp_path), wrapper=private) == "[0, 1, 2, 1, 0]\n"
