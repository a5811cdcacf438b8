"""Connections to an IMAP server: requests, and the meaning of the server's errors.

Folders are opened with EXAMINE and bodies read with PEEK, so nothing changes on the server, not even a flag.
Errors of the server or the network are Transient, unless a person must act. A folder that the server refuses
to open raises FolderRefused. No error message contains the password, even if a server repeats it.

A source has a small pool of connections. Each connection serves one caller at a time, and is checked before
its next use. A failure to connect is remembered for a few seconds. Otherwise each of thousands of messages
would wait for a time-out, or try the wrong password.
"""

import contextlib
import imaplib
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore, Lock, Timer
from time import monotonic
from typing import Any, Literal
from weakref import finalize

from pydantic import SecretStr

from ingestor.connectors.imap import text
from ingestor.ports import NeedsHuman, Transient
from ingestor.units import quantity

SECONDS = 60.0  # longest silence of a server
ANSWER = 600.0  # seconds for a whole answer, also if it comes a byte at a time
_PARTING = 5.0  # seconds for the answer to LOGOUT
_MOST = 512 * 2**20  # bytes of one answer
_HANDSHAKE = (
    "WRONG_VERSION_NUMBER",
    "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE",
    "RECORD_LAYER_FAILURE",
)
_TROUBLE = (imaplib.IMAP4.error, OSError, ValueError, OverflowError, MemoryError)

Tls = Literal["starttls"] | bool


class _Bounded(imaplib.IMAP4):
    """IMAP client that limits the time and the size of each answer."""

    heard = 0  # bytes of the answer
    late = False  # whether the deadline ended the connection
    _timer: Timer | None = None

    def open(self, *where: Any, **more: Any) -> None:
        super().open(*where, **more)
        self.begin()

    def begin(self) -> None:
        """Start the time limit for the next answer."""
        self.end()
        self.heard, self.late = 0, False
        self._timer = Timer(ANSWER, self._leave)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Cancel the time limit, because the answer has arrived."""
        if self._timer is not None:
            self._timer.cancel()

    def _leave(self) -> None:
        """Close the connection when the time is over. Called in the timer's thread.

        A socket's own time limit would not do: it starts again with every byte.
        """
        self.late = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # also of TLS, without its closing message

    def read(self, size: int) -> bytes:
        self._count(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        self.heard += size
        if self.heard > _MOST:
            raise self.abort(f"the answer has more than {_MOST:,} bytes")


class _BoundedTls(_Bounded, imaplib.IMAP4_SSL):
    pass


class FolderRefused(Transient):
    """Error: the server refuses to open or list a folder."""


@dataclass(frozen=True, slots=True)
class ImapServer:
    """Address of a mail server, with the user and password to log in."""

    host: str
    port: int
    tls: Tls
    username: str
    password: SecretStr

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FolderListing:
    """All messages of a folder.

    ``validity``: the folder's UIDVALIDITY; if it changes, all UIDs become invalid.
    """

    validity: int
    messages: tuple[text.Message, ...]


class Session:
    """A connection that has logged in, for use by one thread at a time.

    ``sound``: whether the connection can be used again. Methods raise NeedsHuman or Transient.
    """

    def __init__(self, server: ImapServer) -> None:
        """Connect and log in. Raises NeedsHuman or Transient."""
        self._server = server
        self._examined: tuple[bytes, int] | None = None  # the open folder, and its UIDVALIDITY
        self.sound = True
        try:
            self._imap = _connect(server)
        except _TROUBLE as error:
            raise (_human(server, error) or self._later(error)) from None
        self._imap.begin()
        try:
            self._log_in()
        except BaseException:
            self.abandon()
            raise
        finally:
            self._imap.end()

    def folders(self) -> list[bytes]:
        """Return the raw names of all folders."""
        with self._request():
            kind, answer = self._imap.list()
            if kind != "OK":
                raise imaplib.IMAP4.error(answer[-1])
            return text.folders(answer)

    def list_folder(self, raw: bytes) -> FolderListing:
        """List all messages of a folder. Raises FolderRefused if the server does not list each of them."""
        count, validity = self._examine(raw)
        if not count:
            return FolderListing(validity, ())
        with self._request():
            kind, lines = self._imap.uid("FETCH", "1:*", "(UID RFC822.SIZE INTERNALDATE FLAGS)")
            listed = {message.uid: message for message in text.messages(lines)} if kind == "OK" else {}
            expunged = len([number for number in self._imap.response("EXPUNGE")[1] if number is not None])
        if kind != "OK":
            raise FolderRefused(f"the server does not list the messages ({self._quote(lines[-1])})")
        if len(listed) + expunged < count:
            raise FolderRefused(f"the server lists only {len(listed)} of {quantity(count, 'message')}")
        return FolderListing(validity, tuple(listed.values()))

    def without_attachments(self, raw: bytes, validity: int, uids: range) -> frozenset[int]:
        """Return the UIDs of messages that have no attachment, as far as the server reports that.

        ``uids``: the messages to ask about. The result is empty if the server cannot describe messages.
        Raises FolderRefused, Transient or NeedsHuman.
        """
        if self._examined != (raw, validity) and self._examine(raw)[1] != validity:
            return frozenset()
        with self._request():
            try:
                kind, lines = self._imap.uid("FETCH", f"{uids[0]}:{uids[-1]}", "(UID BODYSTRUCTURE)")
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error:  # the server does not know the command
                return frozenset()
            return frozenset(text.without_attachments(lines)) if kind == "OK" else frozenset()

    def message(self, raw: bytes, validity: int, uid: int) -> bytes | None:
        """Return the bytes of a message; None if the folder has no such message.

        Raises FolderRefused, Transient or NeedsHuman.
        """
        reused = self._examined == (raw, validity)
        if not reused and self._examine(raw)[1] != validity:
            return None
        with self._request():
            kind, lines = self._imap.uid("FETCH", str(uid), "(UID BODY.PEEK[])")
            content = text.body(lines, uid) if kind == "OK" else None
        if content is None and reused:  # the server may still show the folder as it was when it was opened
            self._examined = None
            return self.message(raw, validity, uid)
        if kind != "OK" and "[EXPUNGEISSUED]" not in (words := self._quote(lines[-1])):
            raise Transient(f"{self._server} does not send message {uid} ({words}), will be retried")
        return content

    def silent(self) -> bool:
        """Return whether the server has sent nothing since the last answer.

        A server that sends something unasked is closing the connection.
        """
        try:
            heard = select.poll()
            heard.register(self._imap.sock, select.POLLIN)
            return not heard.poll(0)
        except _TROUBLE:
            return False

    def close(self) -> None:
        """Log out, if the server still answers."""
        with contextlib.suppress(*_TROUBLE):
            self._imap.sock.settimeout(_PARTING)
            self._imap.logout()
        self.abandon()

    def abandon(self) -> None:
        self.sound = False
        with contextlib.suppress(*_TROUBLE):
            self._imap.shutdown()

    def _examine(self, raw: bytes) -> tuple[int, int]:
        """Open a folder read-only. Return the number of its messages, and its UIDVALIDITY.

        Raises FolderRefused, Transient or NeedsHuman.
        """
        self._examined = None
        try:
            name = text.quote_argument(raw)
        except ValueError as error:
            raise FolderRefused(str(error)) from None
        with self._request():
            kind, answer = self._imap.select(name, readonly=True)  # type: ignore[arg-type]
            validity = self._imap.response("UIDVALIDITY")[1][-1]
        if kind != "OK":
            raise FolderRefused(f"the server does not open the folder ({self._quote(answer[-1])})")
        if validity is None:
            raise FolderRefused(
                "the server sends no UIDVALIDITY, so messages have no lasting numbers: exclude the folder"
            )
        with self._request():  # answers that are no numbers are errors of the server
            self._examined = (raw, int(validity))
            return int(answer[-1] or 0), int(validity)

    def _log_in(self) -> None:
        """Log in by password. Raises NeedsHuman or Transient."""
        if self._imap.state == "AUTH":
            return  # logged in by the greeting (PREAUTH)
        server, offers = self._server, self._imap.capabilities
        user, password = server.username, server.password.get_secret_value()
        plain = "AUTH=PLAIN" in offers
        if not plain and ("LOGINDISABLED" in offers or not (user + password).isascii()):
            ways = ", ".join(offer for offer in offers if offer.startswith("AUTH=")) or "none"
            raise NeedsHuman(f"{server} accepts no password login (it offers: {ways}): check `tls`")
        try:
            if plain:
                self._imap.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())
            else:
                self._imap.login(user, password)
        except imaplib.IMAP4.abort as error:
            raise self._later(error) from None
        except imaplib.IMAP4.error as error:
            words = self._quote(error)
            if text.may_pass(words):
                raise Transient(f"{server} refuses logins now, will be retried: {words}") from None
            raise NeedsHuman(
                f"{server} refuses the login of {user} ({words}): check `username` and `password`"
            ) from None
        except _TROUBLE as error:
            raise self._later(error) from None

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Context for one request: limits its time, and raises its errors as NeedsHuman or Transient.

        After an error the connection is not used again.
        """
        self.sound = False
        self._imap.begin()
        try:
            yield
        except _TROUBLE as error:
            late = self._imap.late
            why: object = f"the answer took more than {ANSWER:g} s" if late else error
            raise (_human(self._server, error) or self._later(why)) from None
        finally:
            self._imap.end()
        self.sound = True

    def _later(self, error: object) -> Transient:
        return Transient(f"{self._server} can't be read now, will be retried: {self._quote(error)}")

    def _quote(self, answer: Any) -> str:
        reason = answer.strerror if isinstance(answer, OSError) and answer.strerror else answer
        words, password = text.in_one_line(reason), self._server.password.get_secret_value()
        return words.replace(password, "***") if password else words


def _connect(server: ImapServer) -> _Bounded:
    if server.tls is True:
        context = ssl.create_default_context()
        return _BoundedTls(server.host, server.port, ssl_context=context, timeout=SECONDS)
    imap = _Bounded(server.host, server.port, timeout=SECONDS)
    if server.tls == "starttls":
        try:
            if "STARTTLS" not in imap.capabilities:
                raise NeedsHuman(f"{server} does not offer STARTTLS: set `tls: true` and the port for TLS")
            imap.starttls(ssl.create_default_context())
        except BaseException:
            with contextlib.suppress(OSError):
                imap.shutdown()
            raise
    return imap


def _human(server: ImapServer, error: Exception) -> NeedsHuman | None:
    """Return the error, with its remedy, if a person must correct the config or a certificate; else None."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return NeedsHuman(
            f"the certificate of {server} can't be trusted ({error.verify_message}): check `host`, or set"
            " the environment variable SSL_CERT_FILE to the certificate of its issuer"
        )
    if isinstance(error, ssl.SSLError) and error.reason in _HANDSHAKE:
        return NeedsHuman(f"{server} does not speak TLS ({error.reason}): check `port` and `tls`")
    return None


_CONNECTIONS = 4  # connections; servers allow about ten for a user, and mail programs need some of them
IDLE = 20.0  # seconds
_BELIEVED = 5.0  # seconds for which a failure to connect is remembered


class ImapSessions:
    """Pool of sessions that several threads share. ``open_one``: opens a session.

    Sessions that are idle for ``IDLE`` seconds are closed.
    """

    def __init__(self, open_one: Callable[[], Session]) -> None:
        self._open = open_one
        self._free = BoundedSemaphore(_CONNECTIONS)
        self._lock = Lock()
        self._idle: list[tuple[float, Session]] = []  # idle since, the longest first
        self._timer: Timer | None = None
        self._failed: Callable[[], Exception] | None = None  # builds the last error of connecting
        self._failed_at = 0.0
        finalize(self, _abandon, self._idle)

    @contextmanager
    def one(self, *, retry: bool = False) -> Iterator[Session]:
        """Wait until a session of the pool is free, and yield that session until the context ends.

        ``retry``: whether to connect even if connecting failed a moment ago. Raises the errors of Session.
        """
        with self._free:
            session = self._take_idle() or self._connect(retry)
            try:
                yield session
            finally:
                if not session.sound:
                    self._drop(session)
                else:
                    with self._lock:
                        self._idle.append((monotonic(), session))
                        if self._timer is None:
                            self._start_timer()

    def _take_idle(self) -> Session | None:
        with self._lock:
            session = self._idle.pop()[1] if self._idle else None
        if session is None or session.silent():
            return session
        self._drop(session)
        return None

    def _connect(self, retry: bool) -> Session:
        failed = self._failed
        if failed and not retry and monotonic() < self._failed_at + _BELIEVED:
            raise failed()
        try:
            session = self._open()
        except (NeedsHuman, Transient) as error:
            self._failed, self._failed_at = partial(type(error), str(error)), monotonic()
            raise
        self._failed = None
        return session

    def _drop(self, session: Session) -> None:
        """Close a session after an error, and all idle sessions, which the cause has probably broken, too."""
        with self._lock:
            idle, self._idle[:] = self._idle[:], []
        for each in (session, *(other for _, other in idle)):
            each.abandon()

    def _start_timer(self) -> None:
        self._timer = Timer(IDLE, self._close_idle)
        self._timer.daemon = True
        self._timer.start()

    def _close_idle(self) -> None:
        with self._lock:
            due = monotonic() - IDLE
            old = [session for since, session in self._idle if since <= due]
            del self._idle[: len(old)]
            self._timer = None
            if self._idle:
                self._start_timer()
        for session in old:
            session.close()


def _abandon(idle: list[tuple[float, Session]]) -> None:
    for _, session in idle:
        session.abandon()
