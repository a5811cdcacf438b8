"""What is said of a bad config: exact messages, with their lines."""

from pathlib import Path

import pytest

from ingestor.registry import Group, kinds
from tests.config.written import SOURCE, mistakes, source

SOURCE_KEYS = (
    "allowed: archives, chunking, collection, exclude, hidden, ignore_files, include, kind, max_loss, "
    "max_size, metadata, name, parsing, path, poll, scan_every, settle, sidecar, symlinks, watch"
)


NAME = "must be letters, digits, '_', '.' and '-' only"
COLLECTION = "must be 3 to 512 characters of a-z A-Z 0-9 . _ - that start and end with a letter or digit"
DURATION = "expected a duration such as 500ms, 2s, 5m, 1h or 7d"
SIZE = "expected a size such as 500KB, 50MB or 2GB"


@pytest.mark.parametrize(
    ("top", "message"),
    [
        (
            "wokers: 3",
            "1: unknown key 'wokers'; did you mean 'workers'? allowed: cache, chroma, chunking, collections, "
            "embedding, http, language_model, log, max_loss, max_records, metadata, parsing, prune, rechunk, "
            "scan_every, search, sources, state, workers",
        ),
        (
            "metadata: leen",
            "1: metadata: must be 'full' or 'lean' or a list or a mapping of keys to values, not 'leen'",
        ),
        ("metadata: {nobody: lean}", "1: metadata.nobody: no source feeds this collection; there are: abc"),
        (
            "collections: {nobody: {shards: 2}}",
            "1: collections.nobody: no source feeds this collection; there are: abc",
        ),
        ("collections: {abc: {shards: 65}}", "1: collections.abc.shards: must be at most 64, not 65"),
        ("workers: many", "1: workers: must be a whole number or a mapping of keys to values, not 'many'"),
        ("workers: 1.5", "1: workers: must be a whole number or a mapping of keys to values, not 1.5"),
        ("workers: [3]", "1: workers: must be a whole number or a mapping of keys to values, not a list"),
        ("workers: true", "1: workers: must be a number, not true or false"),
        ("workers: 0", "1: workers: must be at least 1 or a mapping of keys to values, not 0"),
        ("workers: 65", "1: workers: must be at most 64 or a mapping of keys to values, not 65"),
        ("workers: {count: 80}", "1: workers: with `kind: threads`, `count` must be at most 64"),
        ("workers: {cpus: 2}", "1: workers: with `kind: threads`, remove cpus; or set `kind: ray`"),
        ("workers: {kind: rey}", "1: workers.kind: must be 'threads' or 'ray', not 'rey'"),
        (
            "workers: {kind: ray, runtime_env: {env_vars: {TOKEN: '${S:-x}'}}}",
            "1: workers.runtime_env.env_vars.TOKEN: must not be filled from a variable: everyone who sees "
            "Ray's dashboard can see it",
        ),
        ("max_loss: false", "1: max_loss: must be a number, not true or false"),
        ("max_loss: 50%", "1: max_loss: must be a number, not '50%'"),
        ("max_loss: -0.1", "1: max_loss: must be at least 0, not -0.1"),
        ("max_loss: nan", "1: max_loss: must be at most 1, not 'nan'"),
        ("scan_every: 0s", "1: scan_every: must be more than 0, not '0s'"),
        ("scan_every: soon", f"1: scan_every: {DURATION}, not 'soon'"),
        ("scan_every: -1", f"1: scan_every: {DURATION}, not -1"),
        ("scan_every: '" + "9" * 400 + "'", "1: scan_every: must be at most 3650d"),
        ("scan_every: 1e300", "1: scan_every: must be at most 3650d"),
        ("scan_every: 99999999d", "1: scan_every: must be at most 3650d"),
        ("cache: {size: '" + "9" * 400 + "'}", "1: cache.size: must be at most 1000000TB"),
        ("cache: {size: 1e300}", "1: cache.size: must be at most 1000000TB"),
        ("cache: {size: 99999999 TiB}", "1: cache.size: must be at most 1000000TB"),
        ("cache: {size: 2 XB}", f"1: cache.size: {SIZE}, not '2 XB'"),
        ("cache: {size: true}", f"1: cache.size: {SIZE}"),
        ("cache: {sise: 2GB}", "1: cache: unknown key 'sise'; did you mean 'size'? allowed: size"),
        ("cache: 2GB", "1: cache: must be a mapping of keys to values, not text"),
        ("parsing: {memory: 1MB}", "1: parsing.memory: must be at least 256MB"),
        ("parsing: {seconds: soon}", f"1: parsing.seconds: {DURATION}, not 'soon'"),
        ("parsing: {processes: 0}", "1: parsing.processes: must be at least 1, not 0"),
        ("parsing: {pdf: {}}", "1: parsing: unknown key 'pdf'; allowed: memory, processes, seconds, types"),
        ("log: {level: loud}", "1: log.level: must be 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ("state: 7", "1: state: must be a path, not a number"),
        (r'state: "a\0b"', "1: state: must be a path without NUL characters or lone surrogates"),
        (r'state: "a\uD800b"', "1: state: must be a path without NUL characters or lone surrogates"),
        ("state: ~nobody-of-this-name/x", "1: state: no home folder is known for '~nobody-of-this-name'"),
        ("chunking: recursive", "1: chunking: must be a mapping of keys to values, not text"),
        (
            "chunking: {strategy: recursiv}",
            "1: chunking.strategy: unknown strategy 'recursiv'; did you mean 'recursive'? "
            "installed: {chunkers}",
        ),
        ("chunking: {strategy: 3}", "1: chunking.strategy: must be text, the name of a strategy"),
        (
            "chunking: {strategy: recursive, sise: 3}",
            "1: chunking: unknown key 'sise'; did you mean 'size'? allowed: by_type, context, "
            "max_tokens, min_tokens, neighbours, overlap, separators, size, strategy",
        ),
        (
            "chunking: {strategy: recursive, size: 20, overlap: 20}",
            "1: chunking: overlap (20) must be smaller than size (20)",
        ),
        (
            "chunking: {strategy: recursive, separators: [1]}",
            "1: chunking.separators[0]: must be text, not a number (put it in quotes)",
        ),
        (
            "embedding: {kind: hash}",
            "1: embedding.kind: unknown embedder 'hash'; did you mean 'hashing'? installed: {embedders}",
        ),
        (
            "embedding: {precision: float64}",
            "1: embedding.precision: must be 'auto', 'float32', 'bfloat16' or 'int8', not 'float64'",
        ),
        ("embedding: {model: 7}", "1: embedding.model: must be text, not a number (put it in quotes)"),
        (
            "chroma: {path: c, ssl: true}",
            "1: chroma: unknown key 'ssl'; allowed: embedded, host, hosts, path, port, token, tokens",
        ),
        (
            "chroma: {path: c, embedded: true, token: '${T:-x}'}",
            "1: chroma: unknown key 'token'; allowed: embedded, path",
        ),
        ("chroma: {ssl: true}", "1: chroma.host: is required"),
        (
            "chroma: {token: ''}",
            "1: chroma.token: must not be empty: leave it out to admit everybody who reaches the port",
        ),
        (
            "chroma: {token: '${T:-two words}'}",
            "1: chroma.token: must be ASCII letters, digits and punctuation: Chroma's clients can send no "
            "others",
        ),
        (
            "chroma: {hosts: ['ingestor:8000']}",
            "1: chroma.hosts[0]: must be a host name alone, without http://, a port or a path",
        ),
        (
            "chroma: {host: 'http://db'}",
            "1: chroma.host: must be a host name or an address alone, without http:// or a path",
        ),
        ("chroma: {host: db, token: 12}", "1: chroma.token: must be text, not a number (put it in quotes)"),
        ("chroma: {host: db, token: [s3cret]}", "1: chroma.token: must be text, not a list"),
        (
            "chroma: {host: db, headers: {X-Key: s3cret}}",
            "1: chroma.headers.X-Key: is a secret and must not be in plain text: write ${NAME} and set that "
            "variable, or file:/path",
        ),
        (
            "chroma: {host: db, quotas: many}",
            "1: chroma.quotas: must be 'auto', 'cloud' or 'none' or a mapping of keys to values, not 'many'",
        ),
        ("chroma: {host: db, ssl: maybe}", "1: chroma.ssl: must be true or false, not 'maybe'"),
        ("chroma: {embedded: true, port: 8000}", "1: chroma: unknown key 'port'; allowed: embedded, path"),
        ("chroma: {port: 0}", "1: chroma.port: must be at least 1, not 0"),
        ("chroma: {port: 99999}", "1: chroma.port: must be at most 65535, not 99999"),
        (
            "chroma: {host: db, token: 'file:/no/such'}",
            "1: chroma.token: the secret file '/no/such' can't be read: No such file or directory",
        ),
        (
            "chroma: {host: db, token: 'file:/dev/null'}",
            "1: chroma.token: the secret file '/dev/null' is empty",
        ),
    ],
)
def test_bad_top_level_is_reported(top: str, message: str) -> None:
    message = message.replace("{chunkers}", ", ".join(kinds("chunkers")))
    message = message.replace("{embedders}", ", ".join(kinds("embedders")))
    assert mistakes(f"{top}\n{SOURCE}") == [message]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"exlude": []}, f"sources[0]: unknown key 'exlude'; did you mean 'exclude'? {SOURCE_KEYS}"),
        (
            {"metadata": {"value": {}}},
            "sources[0].metadata: unknown key 'value'; did you mean 'values'? "
            "allowed: front_matter, paths, values",
        ),
        (
            {"metadata": {"values": {"title": "A"}}},
            "sources[0].metadata.values.title: is a key that ingestor sets in every record: "
            "choose another, such as 'my_title'",
        ),
        (
            {"metadata": {"paths": {"*.md": {"a": {"b": 1}}}}},
            "sources[0].metadata.paths.*.md.a: must be text, a number, true, false or a list of texts",
        ),
        (
            {"metadata": {"front_matter": {"year": "date"}}},
            "sources[0].metadata.front_matter.year: must be 'text', 'number', 'boolean', 'list' or 'day', "
            "not 'date'",
        ),
        ({"metadata": "lean"}, "sources[0].metadata: must be a mapping of keys to values, not text"),
        ({"metadata": ["a"]}, "sources[0].metadata: must be a mapping of keys to values, not a list"),
        ({"include": "*.md"}, 'sources[0].include: must be a list, not text: write ["*.md"]'),
        ({"name": "my docs"}, f"sources[0].name: {NAME}"),
        ({"name": ""}, f"sources[0].name: {NAME}"),
        ({"name": 3}, "sources[0].name: must be text, not a number (put it in quotes)"),
        ({"collection": "ab"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "-abc"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "a b c"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "abc\n"}, f"sources[0].collection: {COLLECTION}"),
        (
            {"collection": "a..b"},
            "sources[0].collection: must not contain two periods in a row, or look like an IP address",
        ),
        (
            {"collection": "10.0.0.1"},
            "sources[0].collection: must not contain two periods in a row, or look like an IP address",
        ),
        (
            {"kind": "foldr"},
            "sources[0].kind: unknown connector 'foldr'; did you mean 'folder'? installed: {connectors}",
        ),
        ({"kind": ["folder"]}, "sources[0].kind: must be text, not a list"),
        ({"path": ""}, "sources[0].path: must name a folder"),
        ({"path": ["x"]}, "sources[0].path: must be a path, not a list"),
        ({"include": [""]}, "sources[0].include[0]: must not be empty"),
        ({"hidden": 7}, "sources[0].hidden: must be true or false, not 7"),
        ({"watch": "often"}, "sources[0].watch: must be 'auto', 'events', 'poll' or 'off', not 'often'"),
        ({"poll": "0s"}, "sources[0].poll: must be more than 0, not 0.0"),
        ({"max_size": "big"}, f"sources[0].max_size: {SIZE}, not 'big'"),
        ({"max_loss": 2}, "sources[0].max_loss: must be at most 1, not 2"),
        ({"scan_every": 0}, "sources[0].scan_every: must be more than 0, not 0"),
        ({"chunking": {"target": 2}}, "sources[0].chunking.target: must be at least 4, not 2"),
        (
            {"chunking": {"strategy": "fixed", "max_sentences": 2}},
            "sources[0].chunking: unknown key 'max_sentences'; did you mean 'max_tokens'? allowed: by_type, "
            "context, max_tokens, min_tokens, neighbours, overlap, size, strategy, unit",
        ),
        (
            {"parsing": {"markdwn": {}}},
            "sources[0].parsing.markdwn: unknown parser 'markdwn'; did you mean "
            "'markdown'? installed: {parsers}",
        ),
        (
            {"parsing": {"text": 3}},
            "sources[0].parsing.text: must be a mapping of keys to values, not a number",
        ),
        ({"parsing": {"text": {"x": 1}}}, "sources[0].parsing.text: unknown key 'x'; allowed: none"),
        (
            {"parsing": {"types": "rst"}},
            "sources[0].parsing.types: must be a mapping of keys to values, not text",
        ),
        (
            {"parsing": {"types": {"*.txt": "pdf"}}},
            "sources[0].parsing.types.*.txt: must be a text parser (asciidoc, csv, html, json, latex, "
            "markdown, notebook, org, rst, subtitles, text, toml, xml, yaml) or "
            "a media type such as text/x-python, not 'pdf'",
        ),
        ({"path": "~nobody-of-this-name"}, "sources[0]: can't be used: Could not determine home directory."),
    ],
)
def test_bad_source_is_reported(keys: dict[str, object], message: str) -> None:
    groups: tuple[Group, ...] = ("connectors", "parsers")
    for group in groups:
        message = message.replace(f"{{{group}}}", ", ".join(kinds(group)))
    assert mistakes(source(**keys)) == [f"1: {message}"]


@pytest.mark.parametrize("key", ["name", "kind", "path", "collection"])
def test_source_requires_its_keys(key: str) -> None:
    lines = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}
    kept = "\n    ".join(f"{name}: {value}" for name, value in lines.items() if name != key)
    assert mistakes(f"sources:\n  -\n    {kept}\n") == [f"3: sources[0].{key}: is required"]
    empty = kept + f"\n    {key}:"
    assert mistakes(f"sources:\n  -\n    {empty}\n") == [f"6: sources[0].{key}: is required"]


def test_all_mistakes_are_reported_in_order_of_lines() -> None:
    text = """\
        state: 7
        wokers: 3
        chroma: {port: 0}
        embedding: {kind: hashing, dimensions: 1}
        chunking: {target: 1}
        sources:
          - name: a b
            kind: folder
            path: ${NOPE}
            collection: abc
            chunking: {strategy: fixed, size: 1}
          - name: b
            kind: no
            collection: abc
          - 3
        """
    assert [line.partition(": unknown")[0].partition(": must")[0] for line in mistakes(text)] == [
        "1: state",
        "2",
        "3: chroma.port",
        "4: embedding.dimensions",
        "5: chunking.target",
        "7: sources[0].name",
        "9: sources[0].path: environment variable NOPE is not set; set it, or write ${NOPE:-some default}",
        "11: sources[0].chunking.size",
        "13: sources[1].kind",
        "15: sources[2]",
    ]


@pytest.mark.parametrize(
    ("top", "key"),
    [("state: {}", "state"), ("state: {}/deeper", "state"), ("chroma: {{path: {}}}", "chroma.path")],
)
def test_file_in_place_of_own_folder_is_named_with_remedy(tmp_path: Path, top: str, key: str) -> None:
    (tmp_path / "notes").touch()
    assert mistakes(f"{top.format(tmp_path / 'notes')}\n{SOURCE}") == [
        f"1: {key}: {tmp_path}/notes is a file, and must be a folder: move it away, or choose another path"
    ]
