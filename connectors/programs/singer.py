"""Singer taps: programs that print the records of a source.

The streams are chosen in the tap's own catalog, and read in full; a record is a document, written by a
template from its fields. Version: a digest of the parts of a record that the document shows. A tap gets no
state of an earlier run, so every scan lists all records; they are kept on disk until the next scan. If a tap
fails, stops early, prints malformed messages or leaves a stream out, no document is removed.
"""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Literal

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


class SingerOptions(Options):
    command: Command = Field(description="the tap and its arguments: `[/opt/tap-github/bin/tap-github]`")
    settings: Settings
    secrets: Secrets
    environment: Environment
    folder: Folder
    streams: Streams
    choose: Literal["catalog", "properties", "nothing"] = Field(
        default="catalog",
        description="how the tap gets the choice of streams: `--catalog`, `--properties` as some old taps "
        "need it, or `nothing` if it has no `--discover`",
    )
    key: Key
    text: Text
    file_name: FileName
    uri: Uri
    metadata: Shown
    timeout: Timeout
    max_size: MaxSize


def build(options: SingerOptions) -> Records:
    return Records(options, lambda program: _records(program, options))


def _records(program: Program, options: SingerOptions) -> Generator[StreamRecord, None, None]:
    """The records of the configured streams. Raises NeedsHuman, ProgramFailed."""
    arguments, wanted = ["--config", program.config], [{name} for name in options.streams]
    if options.choose != "nothing":
        catalog = _discovered(program)
        wanted = names_of(catalog, options.streams)
        chosen = selected(catalog, options.streams)
        arguments += [f"--{options.choose}", program.file("catalog.json", chosen)]
    streams: dict[str, Stream] = {}
    for line in program.lines(*arguments):
        message = program.parsed(line)
        match message.get("type"):
            case "SCHEMA":
                stream = stream_of(message)
                streams[stream.name] = stream
            case "RECORD" if any(message.get("stream") in names for names in wanted):
                yield record_of(message, streams)
            case "BATCH":
                raise NeedsHuman(
                    "the tap sends batches, which are not read: remove `batch_config` from `settings`"
                )
    if silent := [names for names in wanted if not names & streams.keys()]:
        raise NeedsHuman(
            f"the tap sent no {_list(set.union(*silent))}, but {_list(streams) or 'no other stream'}: "
            "correct `streams`, or `choose` another way"
        )


def _discovered(program: Program) -> dict[str, Any]:
    text = b"\n".join(program.found("--config", program.config, "--discover"))
    try:
        catalog = json.loads(text)
    except (ValueError, RecursionError):
        catalog = None
    if not isinstance(catalog, dict) or not isinstance(catalog.get("streams"), list):
        raise NeedsHuman("`--discover` of the tap gives no catalog: set `choose: nothing`")
    return catalog


def names_of(catalog: Mapping[str, Any], streams: Sequence[str]) -> list[set[str]]:
    """The names that messages may use for each configured stream. Raises NeedsHuman if one is missing."""
    there = [_names(entry) for entry in catalog["streams"]]
    if missing := set(streams).difference(*there):
        names = _list(set().union(*there))
        raise NeedsHuman(f"the tap has no stream {_list(missing)}; it has {names}: correct `streams`")
    return [names for names in there if names & set(streams)]


def _names(entry: Mapping[str, Any]) -> set[str]:
    return {str(entry[name]) for name in ("tap_stream_id", "stream") if entry.get(name)}


def selected(catalog: Mapping[str, Any], streams: Sequence[str]) -> dict[str, Any]:
    """The catalog with these streams chosen, in full and with all fields, and no others.

    The choice is written in every form that taps understand, the oldest included.
    """
    wanted = set(streams)
    return {**catalog, "streams": [_chosen(one, bool(_names(one) & wanted)) for one in catalog["streams"]]}


def _chosen(entry: Mapping[str, Any], is_wanted: bool) -> dict[str, Any]:
    metadata = [(one.get("breadcrumb"), one.get("metadata", {})) for one in entry.get("metadata") or []]
    root: dict[str, Any] = next((facts for breadcrumb, facts in metadata if not breadcrumb), {})
    in_full = is_wanted and "forced-replication-method" not in root
    about = {"selected": is_wanted, **({"replication-method": "FULL_TABLE"} if in_full else {})}
    fields = [
        {"breadcrumb": breadcrumb, "metadata": {**facts, "selected": is_wanted}}
        for breadcrumb, facts in metadata
        if breadcrumb
    ]
    return {
        **entry,
        **({"replication_method": "FULL_TABLE"} if in_full else {}),
        "selected": is_wanted,
        "schema": {**entry.get("schema", {}), "selected": is_wanted},
        "metadata": [{"breadcrumb": [], "metadata": {**root, **about}}, *fields],
    }


def stream_of(message: Mapping[str, Any]) -> Stream:
    key, schema = message.get("key_properties"), message.get("schema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    return Stream(
        str(message.get("stream")),
        key if isinstance(key, list) else [],
        fields if isinstance(fields, dict) else {},
    )


def record_of(message: Mapping[str, Any], streams: Mapping[str, Stream]) -> StreamRecord:
    name, values = str(message.get("stream")), message.get("record")
    if name not in streams or not isinstance(values, dict):
        raise ProgramFailed(f"it printed a record of {name} that is malformed, or came before its schema")
    return StreamRecord(streams[name], values)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


PLUGIN = Plugin(kind="singer", version=1, options=SingerOptions, build=build)
