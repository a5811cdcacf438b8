"""Speaks Singer (`--config … [--discover | --catalog …]`) or Airbyte (`discover | read --config …`).

It lists the files of a folder as the stream ``files``; the setting ``ill`` says how it goes wrong after the
first of them. A program of its own: nothing is imported that it does not need.
"""

import base64
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FIELDS = {
    "path": {"type": "string"},
    "content": {"type": "string", "contentEncoding": "base64"},
    "size": {"type": "integer"},
    "seen": {"type": "number"},
    "owner": {"type": "object"},
}


def main(words: list[str]) -> None:
    settings = json.loads(Path(words[words.index("--config") + 1]).read_text())
    speak = Airbyte() if words[0] in ("discover", "read") else Singer()
    if "discover" in words[0] or "--discover" in words:
        speak.catalog()
        return
    with_catalog = "--catalog" in words
    catalog = json.loads(Path(words[words.index("--catalog") + 1]).read_text()) if with_catalog else None
    if catalog is not None and not speak.is_chosen(catalog):
        return
    ill = settings.get("ill", "")
    if ill != "silent":
        speak.begin()
    for number, record in enumerate(records(Path(settings["root"]))):
        speak.record(record)
        if number == 0:
            suffer(ill, record, settings, speak)
    speak.end()


def records(root: Path) -> list[dict[str, Any]]:
    if not root.is_dir():
        raise OSError("the folder is not there")
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [
        {
            "path": path.relative_to(root).as_posix(),
            "content": base64.b64encode(path.read_bytes()).decode(),
            "size": path.stat().st_size,
            "seen": time.time(),
            "owner": {"name": "Ada", "tags": ["x", "y"]},
        }
        for path in files
    ]


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


class Singer:
    def catalog(self) -> None:
        for_all = {"breadcrumb": [], "metadata": {"inclusion": "available"}}
        files = {"tap_stream_id": "main-files", "stream": "files", "schema": schema(), "metadata": [for_all]}
        print(
            json.dumps(
                {"streams": [files, {**files, "tap_stream_id": "others", "stream": "others"}]}, indent=2
            )
        )

    def is_chosen(self, catalog: dict[str, Any]) -> bool:
        return [entry["stream"] for entry in catalog["streams"] if entry["selected"]] == ["files"]

    def begin(self) -> None:
        say(type="SCHEMA", stream="files", schema=schema(), key_properties=["path"])
        say(type="ACTIVATE_VERSION", stream="files", version=1)

    def record(self, record: dict[str, Any]) -> None:
        say(type="RECORD", stream="files", record=record, version=1)
        say(type="RECORD", stream="others", record=record)
        say(type="STATE", value={})

    def end(self) -> None:
        say(type="STATE", value={})


class Airbyte:
    def catalog(self) -> None:
        files = {
            "name": "files",
            "json_schema": schema(),
            "supported_sync_modes": ["full_refresh", "incremental"],
            "source_defined_primary_key": [["path"]],
        }
        print("a library's banner")
        say(type="LOG", log={"level": "INFO", "message": "looking"})
        say(type="CATALOG", catalog={"streams": [files, {**files, "name": "others"}]})

    def is_chosen(self, catalog: dict[str, Any]) -> bool:
        return [(one["stream"]["name"], one["sync_mode"]) for one in catalog["streams"]] == [
            ("files", "full_refresh")
        ]

    def begin(self) -> None:
        self.status("STARTED")

    def record(self, record: dict[str, Any]) -> None:
        say(type="RECORD", record={"stream": "files", "data": record, "emitted_at": 1})
        say(type="RECORD", record={"stream": "others", "data": record, "emitted_at": 1})
        say(type="STATE", state={"type": "STREAM"})

    def end(self) -> None:
        self.status("COMPLETE")

    def status(self, status: str) -> None:
        about = {"stream_descriptor": {"name": "files"}, "status": status}
        say(type="TRACE", trace={"type": "STREAM_STATUS", "stream_status": about})


def schema() -> dict[str, Any]:
    return {"type": "object", "properties": FIELDS}


def suffer(ill: str, record: dict[str, Any], settings: dict[str, Any], speak: Singer | Airbyte) -> None:
    match ill:
        case "loud":
            sys.stderr.write("much ado about nothing\n" * 100_000)
        case "twice":
            speak.record({**record, "content": base64.b64encode(b"the later one").decode()})
        case "leaving a child":
            leave_a_child(settings)
        case "hang":
            hang(settings)
        case "endless":
            for number in itertools.count():
                speak.record({**record, "path": f"{number}.md"})
        case "endless line":
            while True:
                sys.stdout.write("x" * 65536)
        case _:
            end(ill, settings)
            say_nonsense(ill, settings)


def leave_a_child(settings: dict[str, Any]) -> None:
    if os.fork() == 0:
        hang(settings)
    while not Path(settings["pid"]).exists():  # or it is ended before it could say so
        time.sleep(0.01)


def hang(settings: dict[str, Any]) -> None:
    Path(settings["pid"]).write_text(str(os.getpid()))
    time.sleep(600)


def end(ill: str, settings: dict[str, Any]) -> None:
    match ill:
        case "cut":
            print('{"type": "RECORD", "stream": "fi', end="", flush=True)
            sys.exit(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(f"INFO begun\nERROR: the server said 500 to {settings['token']}")
        case "refused":
            sys.exit(f"401 Client Error: Unauthorized for {settings['token']}")
        case "incomplete":
            Airbyte().status("INCOMPLETE")
            sys.exit(0)


def say_nonsense(ill: str, settings: dict[str, Any]) -> None:
    match ill:
        case "garbage":
            print('so far {"type": "RECORD", "stream": "files", "record": {}}')
        case "deep":
            print('{"type": ' + "[" * 100_000)
        case "binary":
            sys.stdout.flush()
            sys.stdout.buffer.write(b'{"type": ' + bytes(range(256)) * 100 + b"\n")
        case "system_error" | "config_error":
            error = {"message": f"no way, {settings['token']}", "failure_type": ill}
            say(type="TRACE", trace={"type": "ERROR", "error": error})
        case "batch":
            say(type="BATCH", stream="files", manifest=[])
        case "early":
            say(type="RECORD", stream="files", record=None)


if __name__ == "__main__":
    main(sys.argv[1:])
