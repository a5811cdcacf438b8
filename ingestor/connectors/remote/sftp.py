"""Files over SFTP by fsspec's file system, with a check of the server's key.

As for ``ssh``, the server's key must be in the file of known hosts. A password is sent only after this check.
"""

import logging
from pathlib import Path
from typing import Any

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem

from ingestor.ports import NeedsHuman

logging.getLogger("paramiko").setLevel(
    logging.CRITICAL
)  # it also logs tracebacks of the errors that it raises
_SECONDS = 30.0  # longest silence of the server


class Sftp(SFTPFileSystem):  # type: ignore[misc]
    """File system of an SFTP server."""

    def __init__(self, host: str, known_hosts: str = "~/.ssh/known_hosts", **login: Any) -> None:
        """Connect to a host. Raises the errors of paramiko, and NeedsHuman if the host's key is unknown.

        ``known_hosts``: file with the keys of known hosts. ``login``: arguments of
        ``paramiko.SSHClient.connect``.
        """
        try:
            self._known_hosts = Path(known_hosts).expanduser()
        except RuntimeError as error:
            raise NeedsHuman(
                f"no home folder is known for {Path(known_hosts).parts[0]!r}: write the whole path as "
                "`known_hosts` in `options`"
            ) from error
        super().__init__(host, **login)

    def _connect(self) -> None:
        self.client = paramiko.SSHClient()
        if self._known_hosts.exists():
            self.client.load_system_host_keys(str(self._known_hosts))
        self.client.set_missing_host_key_policy(_Unknown(self._known_hosts))
        waits = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), _SECONDS)
        try:
            self.client.connect(self.host, **{**waits, **self.ssh_kwargs})
        except paramiko.BadHostKeyException as error:
            raise NeedsHuman(
                f"{self.host} shows another host key than {self._known_hosts} has: this may be an attack; "
                "if the server was reinstalled, replace its key in that file"
            ) from error
        self.ftp = self.client.open_sftp()
        self.ftp.get_channel().settimeout(self.ssh_kwargs.get("timeout", _SECONDS))


class _Unknown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Policy that refuses hosts whose key is not in the file of known hosts."""

    def __init__(self, known_hosts: Path) -> None:
        self._known_hosts = known_hosts

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        raise NeedsHuman(
            f"the host key of {hostname} ({key.fingerprint}) is not in {self._known_hosts}: check the "
            "fingerprint, then add the output of `ssh-keyscan`, or set another file as `known_hosts` in "
            "`options`"
        )
