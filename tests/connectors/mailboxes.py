"""A mail server (dovecot) that tests start, and a world of messages in it."""

import imaplib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from ingestor.connectors.imap.connector import Imap, ImapOptions
from ingestor.connectors.imap.text import raw_name
from ingestor.model import Blob, Item
from tests.connectors.proxy import Proxy, before
from tests.connectors.servers import HOST, Running, answers, as_somebody, program, running
from tests.serving import free_port
from tests.waiting import wait

PASSWORD = "s3cret-ünd-long"
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
ssl_dh =
disable_plaintext_auth = no
auth_failure_delay = 0
mail_max_userip_connections = 6
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 1
mail_fsync = never
mail_location = maildir:{folder}/mail/%u:LAYOUT=fs
namespace inbox {{
  inbox = yes
  separator = /
}}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/home
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
"""


@dataclass(frozen=True)
class Dovecot:
    """``port`` takes plain connections and STARTTLS."""

    folder: Path
    port: int
    tls_port: int
    server: Running

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.pem"

    def admits(self, *users: str) -> None:
        """These and no others, as soon as the server looks at the file again: within a second."""
        (self.folder / "users").write_text("".join(f"{user}:{PASSWORD}\n" for user in users))

    def read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@contextmanager
def dovecot() -> Iterator[Dovecot]:
    """It runs as somebody without rights. Its sockets want short paths, so it has a folder of its own."""
    dovecot = program("dovecot")
    folder = Path(mkdtemp(prefix="imap-", dir="/tmp"))
    somebody, as_whom = as_somebody(folder)
    port, tls_port = free_port(), free_port()
    settings = {"folder": folder, "port": port, "tls_port": tls_port, **somebody}
    (folder / "config").write_text(_CONFIG.format_map(settings))
    _make_certificate(folder)
    command = [*as_whom, dovecot, "-F", "-c", str(folder / "config")]
    try:
        with running(command, folder, port, lambda: answers(port) and answers(tls_port)) as server:
            made = Dovecot(folder, port, tls_port, server)
            made.admits("ada")
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_certificate(folder: Path) -> None:
    out = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"), "-days", "2"]
    of = ["-subj", "/CN=tests", "-addext", f"subjectAltName=IP:{HOST}"]
    make = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", *of, *out]
    subprocess.run(make, check=True, capture_output=True)
    (folder / "key.pem").chmod(0o644)


class MailWorld:
    """The ``World`` of the connector laws: ``folder/name`` is a message in a folder, which is made for it.

    Messages have numbers, not names, and never change: ``connector`` lists them by the names that the world
    gave them, and an edit is a new message in place of the old one. ``bare`` is the connector without that.
    """

    secret = PASSWORD

    def __init__(self, server: Dovecot, proxy: Proxy, **options: object) -> None:
        self.server, self.proxy = server, proxy
        login = {"host": HOST, "port": proxy.port, "username": "ada", "password": PASSWORD, "tls": False}
        self.source: dict[str, object] = {**login, "folders": ["*"], **options}
        self.bare = Imap(ImapOptions.model_validate(self.source))
        self.connector = _Named(self)
        self.names: dict[str, str] = {}  # the connector's key, by what the laws call it
        self.client = logged_in(server.port)
        self._others: list[imaplib.IMAP4] = []

    def put(self, key: str, data: bytes) -> None:
        old = self.names.pop(key, None)
        folder = key.rpartition("/")[0] or "INBOX"
        self.client.create(_quoted(folder))
        if data:
            done = _fine(self.client.append(_quoted(folder), "", "", data))
            validity, uid = done.partition("APPENDUID ")[2].partition("]")[0].split()
        else:
            validity, uid = self._put_empty(folder)
        self._delete(old)
        self.names[key] = f"{folder}/{validity}/{uid}.eml"

    def delete(self, key: str) -> None:
        self._delete(self.names.pop(key))

    def move(self, old: str, new: str) -> None:
        there = self.names.pop(old)
        folder = new.rpartition("/")[0] or "INBOX"
        self.client.create(_quoted(folder))
        _fine(self.client.uid("COPY", self._select(there), _quoted(folder)))
        validity, _, number = self.client.response("COPYUID")[1][-1].decode().split()
        self._delete(there)
        self.names[new] = f"{folder}/{validity}/{number}.eml"

    def flag(self, key: str, *flags: str) -> None:
        there = self._select(self.names[key])
        _fine(self.client.uid("STORE", there, "+FLAGS", f"({' '.join(flags)})"))

    def flags(self, key: str) -> str:
        return _fine(self.client.uid("FETCH", self._select(self.names[key]), "(FLAGS)"))

    def drop(self, folder: str) -> None:
        _fine(self.client.select("INBOX"))
        _fine(self.client.delete(_quoted(folder)))
        gone = [name for name, key in self.names.items() if key.rsplit("/", 2)[0] == folder]
        for name in gone:
            del self.names[name]

    def fail(self) -> None:
        self.server.server.kill()

    def deny(self) -> None:
        self.server.admits()
        wait(lambda: not self._admitted())
        self.proxy.drop()

    def throttle(self) -> None:
        """The server takes six connections of a user; one is that of the world."""
        self.proxy.drop()
        while len(self._others) < 5:
            with suppress(imaplib.IMAP4.abort):  # one that was dropped may still be counted
                self._others.append(logged_in(self.server.port))

    def relent(self) -> None:
        self.server.admits("ada")
        for other in self._others:
            other.logout()
        self._others.clear()
        self.proxy.relent()
        wait(self._admitted)

    def close(self) -> None:
        self.client.shutdown()

    def _admitted(self) -> bool:
        try:
            logged_in(self.server.port).logout()
        except imaplib.IMAP4.error:
            return False
        return True

    def _put_empty(self, folder: str) -> tuple[str, str]:
        """It comes as delivered mail does: the server takes none over IMAP."""
        root = self.server.folder / "mail/ada"
        below = root if folder == "INBOX" else root / raw_name(folder).decode()
        (below / "tmp/empty").write_bytes(b"")
        (below / "tmp/empty").rename(below / f"new/{len(self.names)}.empty")
        self.client.select(_quoted(folder))
        validity = self.client.response("UIDVALIDITY")[1][-1].decode()
        return validity, _fine(self.client.uid("SEARCH", "ALL")).split()[-1]

    def _delete(self, there: str | None) -> None:
        if there:
            _fine(self.client.uid("STORE", self._select(there), "+FLAGS", r"(\Deleted)"))
            _fine(self.client.expunge())

    def _select(self, there: str) -> str:
        """The UID, its folder being open."""
        folder, _, name = there.rsplit("/", 2)
        _fine(self.client.select(_quoted(folder)))
        return name.removesuffix(".eml")


@contextmanager
def mail_world(**options: object) -> Iterator[MailWorld]:
    with dovecot() as server, before(server.port) as proxy:
        world = MailWorld(server, proxy, **options)
        yield world
        world.close()


class _Named:
    def __init__(self, world: MailWorld) -> None:
        self._world = world

    def scan(self) -> Iterator[Item]:
        for item in self._world.bare.scan():
            names = {key: name for name, key in self._world.names.items()}
            yield replace(item, key=names[item.key])

    def fetch(self, item: Item) -> Blob:
        folder = dict(item.extra)["folder"]
        return self._world.bare.fetch(replace(item, key=f"{folder}/{item.version}.eml"))


def logged_in(port: int) -> imaplib.IMAP4:
    """Raises IMAP4.error when the server takes no more connections, at the latest here."""
    client = imaplib.IMAP4(HOST, port, timeout=30)
    try:
        client.authenticate("PLAIN", lambda _: f"\0ada\0{PASSWORD}".encode())
        client.noop()
    except imaplib.IMAP4.error:
        client.shutdown()
        raise
    return client


def _quoted(folder: str) -> str:
    raw = raw_name(folder).decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'"{raw}"'


def _fine(answer: tuple[str, list[bytes | None]]) -> str:
    kind, lines = answer
    assert kind == "OK", lines
    return (lines[-1] or b"").decode()
