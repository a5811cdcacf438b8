"""Running a command as a user without privilege, also where the tests themselves run as root."""

import os
import shutil
import sys
from pathlib import Path

import pytest

USER = "65534"
_DROP = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
# Python may lie in root's home, which others can't enter: a mount namespace shows them Python alone.
_SHOWN = """
set -e
kept=$(mktemp -d) && chmod 755 "$kept"
mount --bind "$1" "$kept"
mount -t tmpfs -o mode=755 none "$2"
mkdir -p "$1" && mount --bind "$kept" "$1"
shift 2
exec "$@"
"""


def as_nobody(*command: str) -> list[str]:
    """The command line that runs ``command`` without privilege."""
    if os.geteuid() != 0:
        return list(command)
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    closed = _closed(Path(sys.base_prefix))
    if closed is None:
        return [*_DROP, *command]
    shown = ["unshare", "--mount", "sh", "-c", _SHOWN, "sh", sys.base_prefix, str(closed)]
    return [*shown, *_DROP, *command]


def _closed(path: Path) -> Path | None:
    """The outermost folder above ``path`` that others can't enter."""
    return next((each for each in [*reversed(path.parents), path] if not each.stat().st_mode & 0o001), None)
