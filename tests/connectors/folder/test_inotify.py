import contextlib
import os
import random
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ingestor.connectors.folder.beneath import is_remote, parse
from ingestor.connectors.folder.inotify import Inotify
from ingestor.ports import Stop
from tests.connectors.folders import FolderWorld, run_python, runs, turmoil
from tests.examples import every

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)


def watches() -> int:
    """As the kernel counts them, over all of this process's descriptors."""
    count = 0
    for descriptor in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that iterates
            count += descriptor.read_text().count("inotify wd:")
    return count


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_directory_not_scanned_is_not_watched(world: FolderWorld) -> None:
    for key in ("a/x.md", ".git/objects/x", "node_modules/b/c/x.md", "sub/target/x", "sub/kept/x.md"):
        world.put(key, b"x")
    world.put(".gitignore", b"node_modules/\n")
    world.put("sub/.gitignore", b"target\n")
    before = watches()
    with closing(Inotify(world.connector._enter, Stop())) as inotify:
        assert watches() - before == 4  # the root, a, sub, sub/kept
        world.put("sub/target/y", b"x")
        assert list(inotify.read()) == []
        world.put("sub/.gitignore", b"")
        list(inotify.read())


def test_directory_with_two_paths_is_hinted_under_both(world: FolderWorld) -> None:
    world.put("docs/a.md", b"x")
    (world.root / "link").symlink_to("docs")
    with closing(Inotify(world.connector._enter, Stop())) as inotify:
        world.put("docs/b.md", b"x")
        assert set(inotify.read()) == {("docs/b.md", False), ("link/b.md", False)}


def test_overflow_of_the_queue_hints_at_everything(world: FolderWorld) -> None:
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue > 100_000:
        pytest.skip(f"the queue holds {queue} events here")
    with closing(Inotify(world.connector._enter, Stop())) as inotify:
        for number in range(queue + 100):
            (world.root / f"{number % 2}.md").touch()
        told = list(inotify.read())
        assert ("", True) not in told[:queue]
        assert told[-1] == ("", True)
        world.put("a.md", b"x")
        assert set(inotify.read()) == {("", True)}


def test_failed_start_raises_and_closes_descriptors(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(OSError):
        Inotify(lambda path, entered: None, Stop())
    assert descriptors() == before


@pytest.mark.parametrize("seed", every(2, range(3)))
def test_watches_after_any_history_equal_the_directories(world: FolderWorld, seed: int) -> None:
    chance, before = random.Random(seed), watches()
    with closing(Inotify(world.connector._enter, Stop())) as inotify:
        for _ in range(10):
            turmoil(world, chance, chance.randrange(60))
            list(inotify.read())
            directories = [folder for folder, _, _ in os.walk(world.root)]
            assert watches() - before == len(inotify._watches) == len(directories)
        for folder in directories:
            Path(folder, "probe.md").touch()
        probes = {os.path.relpath(f"{folder}/probe.md", world.root) for folder in directories}
        assert {path for path, _ in inotify.read()} == probes


MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:44 / /mnt/team rw,relatime shared:9 master:3 - nfs4 server:/export rw,vers=4.2
32 27 0:45 / /mnt/laptop rw - fuse.sshfs me@laptop: rw
"""


def test_mount_of_a_device_is_parsed() -> None:
    mounts = {(254, 0): ("ext4", "/dev/vda"), (0, 44): ("nfs4", "server:/export"), (0, 4): None}
    mounts[0, 45] = ("fuse.sshfs", "me@laptop:")
    assert {device: parse(MOUNTINFO, os.makedev(*device)) for device in mounts} == mounts


REMOTE = ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "fuse"]
LOCAL = ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuseblk"]


@pytest.mark.parametrize("kind", REMOTE + LOCAL)
def test_remote_file_systems_are_told_from_local_ones(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingestor.connectors.folder.beneath._find_mount", lambda device: (kind, "source"))
    assert is_remote(str(tmp_path)) == (kind in REMOTE)


_MOUNTING = """
import os, subprocess, sys
from ingestor.connectors.folder.connector import Folder, FolderOptions
path = sys.argv[1]
os.mkdir(path + "/sub")
folder, below = (Folder(FolderOptions(path=each)) for each in (path, path + "/sub"))
said = [folder.identity(), below.identity()]
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
    assert run_python(_MOUNTING, str(tmp_path), wrapper=private) == "[0, 0, 2, 3, 2, 0]\n"
