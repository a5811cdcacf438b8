"""A repository that tests commit to, and a server of it over HTTP that wants a password."""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ingestor.connectors.git.connector import Git, GitOptions
from tests.connectors.proxy import HOST, Proxy, before

_AUTHOR = {"GIT_AUTHOR_NAME": "Ada Löwe", "GIT_AUTHOR_EMAIL": "ada@example.org"}
_COMMITTER = {"GIT_COMMITTER_NAME": "Ada Löwe", "GIT_COMMITTER_EMAIL": "ada@example.org"}


def git(folder: Path, *arguments: str, **more: str) -> str:
    environment = {**os.environ, **_AUTHOR, **_COMMITTER, "GIT_CONFIG_GLOBAL": os.devnull, **more}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Repository:
    """A working tree in which every change is a commit, a minute after the one before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seconds = 1_700_000_000
        root.mkdir(parents=True)
        git(root, "init", "--quiet", "--initial-branch=main")
        git(root, "config", "uploadpack.allowFilter", "true")
        self.commit("begin")

    def commit(self, message: str) -> str:
        self._seconds += 60
        date = f"{self._seconds} +0100"
        git(self.root, "add", "--all", "--force")
        given = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", message, **given)
        return git(self.root, "rev-parse", "HEAD")

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.commit(f"put {key}")

    def delete(self, key: str) -> None:
        (self.root / key).unlink()
        self.commit(f"delete {key}")

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)
        self.commit(f"move {old}")

    def fail(self) -> None:
        self.root.rename(self.root.with_name("aside"))


class GitWorld(Repository):
    """The ``World`` of the connector laws."""

    def __init__(self, folder: Path, **options: object) -> None:
        super().__init__(folder / "root")
        self.connector = opened(self.root, **options)


def opened(root: Path, **options: object) -> Git:
    """Return a connector of the repository at ``root``, whose clone lies beside it."""
    given = {"url": str(root), "cache": root.with_name("cache"), **options}
    return Git(GitOptions.model_validate(given))


class HttpGitWorld(Repository):
    """The ``World`` of the connector laws, behind a server and a proxy."""

    secret = "token-of-ada"

    def __init__(self, folder: Path, server: "Server", proxy: Proxy, **options: object) -> None:
        super().__init__(folder / "root")
        self._server, self._proxy = server, proxy
        self.source = {
            "url": f"http://{HOST}:{proxy.port}/.git", "user": "ada", "token": self.secret,
            "cache": folder / "cache", **options,
        }  # fmt: skip
        self.connector = Git(GitOptions.model_validate(self.source))

    def deny(self) -> None:
        self._server.expected = "nothing"

    def throttle(self) -> None:
        self._server.answer = 429

    def cut(self, after: int) -> None:
        self._proxy.cut(after)

    def relent(self) -> None:
        self._server.expect(f"ada:{self.secret}")
        self._server.answer = 0
        self._proxy.relent()

    def reads(self) -> int:
        return self._server.packs


class Server(ThreadingHTTPServer):
    """``git http-backend`` behind a password; ``answer``, if set, is the status of every request."""

    def __init__(self, root: Path, login: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.expect(login)
        self.answer = 0
        self.packs = 0  # that were sent

        self.requests: list[str] = []

    def expect(self, login: str) -> None:
        self.expected = "Basic " + base64.b64encode(login.encode()).decode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/.git"


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or an answer in two parts waits for 40 ms
    server: Server

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _serve(self, body: bytes) -> None:
        server = self.server
        if server.answer:
            self.send_error(server.answer)
        elif self.headers.get("Authorization") != server.expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
        else:
            server.requests.append(f"{self.command} {self.path.partition('?')[0].rpartition('/')[2]}")
            self._answer(self._backend(body))

    def _backend(self, body: bytes) -> bytes:
        path, _, query = self.path.partition("?")
        names = {"CONTENT_TYPE": "Content-Type", "HTTP_CONTENT_ENCODING": "Content-Encoding"}
        names["GIT_PROTOCOL"] = "Git-Protocol"
        asked = {name: self.headers.get(header, "") for name, header in names.items()}
        where = {"GIT_PROJECT_ROOT": str(self.server.root), "PATH_INFO": path, "QUERY_STRING": query}
        how = {"GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "REMOTE_USER": "ada"}
        environment = {**os.environ, **asked, **where, **how}
        command = ["git", "http-backend"]
        return subprocess.run(command, env=environment, input=body, capture_output=True).stdout

    def _answer(self, answer: bytes) -> None:
        head, _, body = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.server.packs += _objects(body) > 0
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


def _objects(answer: bytes) -> int:
    """How many are in the pack of an answer (gitprotocol-pack: lines with their length, in bands)."""
    lines, pack = answer.partition(b"packfile\n")[2], b""
    while (length := int(lines[:4] or b"0", 16)) > 4:
        pack += lines[5:length] if lines[4] == 1 else b""
        lines = lines[length:]
    return int.from_bytes(pack[8:12], "big")


@contextmanager
def over_http(folder: Path, **options: object) -> Iterator[HttpGitWorld]:
    login = f"ada:{HttpGitWorld.secret}"
    with served(folder / "root", login) as server, before(server.server_port) as proxy:
        yield HttpGitWorld(folder, server, proxy, **options)


@contextmanager
def served(root: Path, login: str) -> Iterator[Server]:
    with Server(root, login) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
