"""Any source that speaks Airbyte: a program, or an image run by Docker, that prints the records of a source.

Streams are chosen in the catalog that it gives itself, and asked for in full; a record is a document, written
by a template from its fields. Version: a digest of what is shown of a record. As it is told of no earlier
run, every scan lists all, and what it gave is kept on disk until the next. A source that fails, breaks off or
leaves a stream incomplete removes nothing.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from ingestor.connectors.programs.child import Failed
from ingestor.connectors.programs.record import Record, Stream
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
        description="the source and its own arguments: `[/opt/source-github/bin/source-github]`; `{folder}` "
        "stands for the folder of the files that it is given, for a container to see"
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


def _records(program: Program, options: AirbyteOptions) -> Generator[Record, None, None]:
    """Those of the wanted streams. Raises NeedsHuman, Failed."""
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
        raise Failed(f"it did not complete {_list(broken)}")


def _discovered(program: Program) -> list[dict[str, Any]]:
    found = _messages(program, program.found("discover", "--config", program.config))
    catalogs = [message["catalog"]["streams"] for message in found if message.get("type") == "CATALOG"]
    if not catalogs:
        raise NeedsHuman("`discover` of the source gives no catalog: is it one of Airbyte?")
    return list(catalogs[-1])


def _messages(program: Program, lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """What else libraries print is passed over, unless it may hide a message. Raises NeedsHuman, Failed."""
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
    except Failed as failed:
        raise Failed(f"{failed}: {said}" if said else str(failed)) from None
    if broken:
        raise Failed(said)


def chosen(entries: Sequence[dict[str, Any]], streams: Sequence[str]) -> list[dict[str, Any]]:
    """The catalog's entries of these streams, which may be named with or without a namespace."""
    there = {name for entry in entries for name in _names(entry)}
    if missing := set(streams) - there:
        has = _list(map(_label, entries))
        raise NeedsHuman(f"the source has no stream {_list(missing)}; it has {has}: correct `streams`")
    return [entry for entry in entries if _names(entry) & set(streams)]


def configured(entry: Mapping[str, Any]) -> dict[str, Any]:
    """As it is asked for: all of it, each time."""
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


def record_of(said: object, streams: Mapping[str, Stream]) -> Iterator[Record]:
    """None, where nobody asked for it. Raises Failed."""
    if not isinstance(said, dict) or not isinstance(said.get("data"), dict):
        raise Failed("it printed a record that is none")
    if _label(said, "stream") in streams:
        yield Record(streams[_label(said, "stream")], said["data"])


def status_of(message: Mapping[str, Any]) -> dict[str, str]:
    """How far a stream is, if that is what the message says."""
    status = (message.get("trace") or {}).get("stream_status")
    return {_label(status.get("stream_descriptor", {})): str(status.get("status"))} if status else {}


def error_of(message: Mapping[str, Any]) -> dict[str, Any]:
    return (message.get("trace") or {}).get("error") or {}


def said_in(error: Mapping[str, Any]) -> str:
    """What went wrong in words for people, and the reason, which these words may leave out."""
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
