"""Sources of Airbyte: a program, or an image run by Docker, that prints records.

The streams are chosen in the program's own catalog, and read in full; a record is a document, written by a
template from its fields. Version: a digest of the parts of a record that the document shows. The program gets
no state of an earlier run, so every scan lists all records; they are kept on disk until the next scan. If the
program fails, stops early or leaves a stream incomplete, no document is removed.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from ingestor.connectors.programs.child import ProgramFailed
from ingestor.connectors.programs.record import Stream, StreamRecord
from ingestor.connectors.programs.records import (
    Command,
    Environment,
    FileName,
    Folder,
    Key,
    MaxSize,
    Program,
    Records,
    Secrets,
    Settings,
    Shown,
    Streams,
    Text,
    Timeout,
    Uri,
)
from ingestor.ports import NeedsHuman
from ingestor.registry import Options, Plugin

_SERIOUS = ("ERROR", "FATAL")  # levels of log messages


class AirbyteOptions(Options):
    command: Command = Field(
        description="the program and its arguments: `[/opt/source-github/bin/source-github]`; `{folder}` "
        "becomes the folder of the files for it, to mount into a container"
    )
    settings: Settings
    secrets: Secrets
    environment: Environment
    folder: Folder
    streams: Streams
    key: Key
    text: Text
    file_name: FileName
    uri: Uri
    metadata: Shown
    timeout: Timeout
    max_size: MaxSize


def build(options: AirbyteOptions) -> Records:
    return Records(options, lambda program: _records(program, options))


def _records(program: Program, options: AirbyteOptions) -> Generator[StreamRecord, None, None]:
    """The records of the configured streams. Raises NeedsHuman, ProgramFailed."""
    entries = chosen(_discovered(program), options.streams)
    streams = {stream.name: stream for stream in map(stream_of, entries)}
    catalog = program.file("catalog.json", {"streams": [configured(entry) for entry in entries]})
    statuses: dict[str, str] = {}
    asked = program.lines("read", "--config", program.config, "--catalog", catalog)
    for message in _messages(program, asked):
        statuses |= status_of(message)
        if message.get("type") == "RECORD":
            yield from record_of(message.get("record"), streams)
    if statuses and (broken := [name for name in streams if statuses.get(name) != "COMPLETE"]):
        raise ProgramFailed(f"it did not complete {_list(broken)}")


def _discovered(program: Program) -> list[dict[str, Any]]:
    found = _messages(program, program.found("discover", "--config", program.config))
    catalogs = [message["catalog"]["streams"] for message in found if message.get("type") == "CATALOG"]
    if not catalogs:
        raise NeedsHuman("`discover` of the program gives no catalog: is `command` a source of Airbyte?")
    return list(catalogs[-1])


def _messages(program: Program, lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Skips other lines that libraries print, unless one may hide a message.

    Raises NeedsHuman, ProgramFailed.
    """
    said, broken = "", False
    try:
        for line in lines:
            message = program.parsed(line) if b'"type"' in line else {}
            log, error = message.get("log") or {}, error_of(message)
            if error:
                said, broken = said_in(error), True
                if error.get("failure_type") == "config_error":
                    raise NeedsHuman(program.named(f"{said}; check `settings` and `secrets`"))
            elif not broken and log.get("level") in _SERIOUS:
                said = str(log.get("message")).partition("\n")[0]
            yield message
    except ProgramFailed as failed:
        raise ProgramFailed(f"{failed}: {said}" if said else str(failed)) from None
    if broken:
        raise ProgramFailed(said)


def chosen(entries: Sequence[dict[str, Any]], streams: Sequence[str]) -> list[dict[str, Any]]:
    """The catalog's entries of these streams, which may be named with or without a namespace."""
    there = {name for entry in entries for name in _names(entry)}
    if missing := set(streams) - there:
        has = _list(map(_label, entries))
        raise NeedsHuman(f"the source has no stream {_list(missing)}; it has {has}: correct `streams`")
    return [entry for entry in entries if _names(entry) & set(streams)]


def configured(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The stream as configured: a full refresh."""
    modes = entry.get("supported_sync_modes") or ["full_refresh"]
    return {
        "stream": entry,
        "sync_mode": "full_refresh" if "full_refresh" in modes else modes[0],
        "destination_sync_mode": "overwrite",
        "cursor_field": entry.get("default_cursor_field") or [],
        "primary_key": entry.get("source_defined_primary_key") or [],
    }


def stream_of(entry: Mapping[str, Any]) -> Stream:
    key = [".".join(path) for path in entry.get("source_defined_primary_key") or []]
    return Stream(_label(entry), key, entry.get("json_schema", {}).get("properties") or {})


def record_of(said: object, streams: Mapping[str, Stream]) -> Iterator[StreamRecord]:
    """The record; nothing if its stream is not configured. Raises ProgramFailed."""
    if not isinstance(said, dict) or not isinstance(said.get("data"), dict):
        raise ProgramFailed("it printed a malformed record")
    if _label(said, "stream") in streams:
        yield StreamRecord(streams[_label(said, "stream")], said["data"])


def status_of(message: Mapping[str, Any]) -> dict[str, str]:
    """The status of streams, if the message is about that."""
    status = (message.get("trace") or {}).get("stream_status")
    return {_label(status.get("stream_descriptor", {})): str(status.get("status"))} if status else {}


def error_of(message: Mapping[str, Any]) -> dict[str, Any]:
    return (message.get("trace") or {}).get("error") or {}


def said_in(error: Mapping[str, Any]) -> str:
    """The error message for people, and the internal reason if the message lacks it."""
    message, reason = str(error.get("message")), str(error.get("internal_message") or "").partition("\n")[0]
    return message if reason in message else f"{message} ({reason})"


def _label(named: Mapping[str, Any], name: str = "name") -> str:
    namespace = named.get("namespace")
    return f"{namespace}.{named.get(name)}" if namespace else str(named.get(name))


def _names(entry: Mapping[str, Any]) -> set[str]:
    return {str(entry.get("name")), _label(entry)}


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


PLUGIN = Plugin(kind="airbyte", version=1, options=AirbyteOptions, build=build)
