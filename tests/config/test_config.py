"""What a config means, and what is said of a bad one: exact messages, with their lines."""

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ingestor.config.check import check
from ingestor.config.file import load
from ingestor.config.models import (
    Config,
    ConfigError,
    Embedded,
    Remote,
    Settings,
    SourceSettings,
    Supervised,
    describe,
)
from ingestor.config.yaml_tree import parse
from ingestor.connectors.folder.connector import Folder, FolderOptions
from ingestor.registry import Group, Options, kinds

ROOT = Path(__file__).parents[2]
AT = Path("/conf")
SOURCE = "sources:\n  - {name: a, kind: folder, path: docs, collection: abc}\n"


def checked(text: str, env: Mapping[str, str] | None = None) -> Config:
    """The config of a text that must be good, as if it lay in ``AT``."""
    config = check(parse(dedent(text), env or {}), AT)
    assert isinstance(config, Config), describe("config.yaml", config)
    return config


def said(text: str, env: Mapping[str, str] | None = None) -> list[str]:
    """``line: problem`` for everything that is wrong with a text."""
    problems = check(parse(dedent(text), env or {}), AT)
    assert not isinstance(problems, Config)
    return [f"{problem.line}: {problem}" for problem in problems]


def source(**keys: object) -> str:
    """A config of one source on one line, with these keys besides or instead of the usual ones."""
    usual = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}
    return f"sources: {json.dumps([usual | keys])}\n"


# --- good ones ---------------------------------------------------------------------------------------------


def test_only_sources_are_required() -> None:
    config = checked(SOURCE)
    assert (config.state, config.chroma) == (AT / ".ingestor", Supervised(path=AT / "chroma"))
    assert config.embedding.plugin.kind == "sentence-transformers"
    assert config.chunking.plugin.kind == "changepoint"
    assert (config.cache_size, config.workers, config.warnings) == (2 * 10**9, 16, ())
    (only,) = config.sources
    assert (only.name, only.collection, only.parsing) == ("a", "abc", ())
    assert only.connector.options == FolderOptions(path=AT / "docs")
    assert only.chunking == config.chunking
    assert (only.scan_every, only.max_loss) == (300.0, 0.5)


def test_every_key() -> None:
    config = checked(
        """
        state: /var/lib/x
        chroma: {path: data, port: 8001, host: 0.0.0.0}
        embedding: {kind: hashing, dimensions: 32}
        chunking: {strategy: sentence, max_sentences: 4}
        cache: {size: 500MB}
        workers: 3
        scan_every: 90s
        max_loss: 0.1
        log: {level: debug, format: json}
        sources:
          - name: a
            kind: folder
            path: docs
            collection: abc
            scan_every: 1h
            max_loss: 1
            exclude: ["*.bak"]
            parsing: {text: {}}
          - {name: b, kind: folder, path: more, collection: abc}
        """
    )
    assert config.state == Path("/var/lib/x")
    assert config.chroma == Supervised(path=AT / "data", port=8001, host="0.0.0.0")
    assert config.embedding.options.model_dump() == {"dimensions": 32}
    assert (config.cache_size, config.workers) == (500 * 10**6, 3)
    assert (config.log.level, config.log.format) == ("debug", "json")
    first, second = config.sources
    assert (first.scan_every, first.max_loss) == (3600.0, 1.0)
    assert (second.scan_every, second.max_loss) == (90.0, 0.1)
    assert [choice.plugin.kind for choice in first.parsing] == ["text"]
    assert first.connector.options == FolderOptions(path=AT / "docs", exclude=["*.bak"])


@pytest.mark.parametrize(
    ("chroma", "expected"),
    [
        ("{}", Supervised(path=AT / "chroma")),
        ("{port: 9000}", Supervised(path=AT / "chroma", port=9000)),
        ("{token: '${T}'}", Supervised(path=AT / "chroma", token=SecretStr("x"))),
        (
            "{host: 0.0.0.0, hosts: [ingestor]}",
            Supervised(path=AT / "chroma", host="0.0.0.0", hosts=("ingestor",)),
        ),
        ("{path: c, host: 0.0.0.0}", Supervised(path=AT / "c", host="0.0.0.0")),
        ("{path: c, embedded: false}", Supervised(path=AT / "c")),
        ("{embedded: true}", Embedded(path=AT / "chroma")),
        ("{path: c, embedded: true}", Embedded(path=AT / "c")),
        ("{path: c, embedded: '${YES}'}", Embedded(path=AT / "c")),
        ("{host: db.example.org}", Remote(host="db.example.org")),
        (
            "{host: '::1', port: 9, token: '${T}', ssl: true}",
            Remote(host="::1", port=9, token=SecretStr("x"), ssl=True),
        ),
    ],
)
def test_the_three_forms_of_chroma(chroma: str, expected: object) -> None:
    assert checked(f"chroma: {chroma}\n{SOURCE}", {"YES": "yes", "T": "x"}).chroma == expected


@pytest.mark.parametrize(
    ("top", "own", "strategy", "changed"),
    [
        ("{strategy: recursive, size: 300}", "{}", "recursive", {"size": 300}),
        (
            "{strategy: recursive, size: 300, overlap: 7}",
            "{size: 400}",
            "recursive",
            {"size": 400, "overlap": 7},
        ),
        ("{strategy: fixed, size: 300}", "{unit: characters}", "fixed", {"size": 300, "unit": "characters"}),
        ("{strategy: recursive, size: 300}", "{strategy: fixed}", "fixed", {"size": 200}),
        (
            "{strategy: recursive, size: 300, overlap: 7}",
            "{strategy: recursive}",
            "recursive",
            {"size": 200, "overlap": 0},
        ),
        ("{strategy: sentence}", "{max_tokens: null}", "sentence", {"max_tokens": None}),
        ("{strategy: sentence, max_tokens: 99}", "{max_tokens: }", "sentence", {"max_tokens": 99}),
    ],
)
def test_a_source_may_change_some_options_or_the_strategy(
    top: str, own: str, strategy: str, changed: dict[str, object]
) -> None:
    text = f"chunking: {top}\n" + SOURCE.replace("abc}", f"abc, chunking: {own}}}")
    chosen = checked(text).sources[0].chunking
    assert chosen.plugin.kind == strategy
    assert chosen.options == chosen.plugin.options.model_validate(changed)


def test_a_key_without_a_value_counts_as_left_out() -> None:
    text = """
        state:
        chroma:
          # port: 8000
        chunking:
          size:
        log:
          level:
        sources:
          - {name: a, kind: folder, path: docs, collection: abc, include: , scan_every: , chunking: }
        """
    assert checked(text) == checked(SOURCE)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("docs", "/conf/docs"),
        ("./docs/", "/conf/docs"),
        ("../docs", "/docs"),
        ("/abs/x", "/abs/x"),
        ("~/docs", "/home/ann/docs"),
        (".", "/conf"),
    ],
)
def test_paths_begin_at_the_configs_folder_or_at_home(
    written: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    config = checked(f"state: {written}\nchroma: {{path: {written}}}\n" + source(path="/elsewhere"))
    assert isinstance(config.chroma, Supervised)
    assert (config.state, config.chroma.path) == (Path(path), Path(path))
    options = checked("state: /s\nchroma: {path: /c}\n" + source(path=written)).sources[0].connector.options
    assert isinstance(options, FolderOptions)
    assert options.path == Path(path)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${NAME}", "ann"),
        ("x-${NAME}.y", "x-ann.y"),
        ("${NAME}${NAME}", "annann"),
        ("${UNSET:-bob}", "bob"),
        ("${EMPTY:-bob}", "bob"),
        ("${NAME:-bob}", "ann"),
        ("a${EMPTY}b", "ab"),
        ("a${UNSET:-}b", "ab"),
        ("$${NAME}", "${NAME}"),
        ("$$ $NAME $", "$$ $NAME $"),
        ("${ODD}", "${NAME}: [*x"),
    ],
)
def test_variables(written: str, value: str) -> None:
    env = {"NAME": "ann", "EMPTY": "", "ODD": "${NAME}: [*x"}
    config = checked(f"embedding: {{prompt: '{written}'}}\n{SOURCE}", env)
    assert config.embedding.options.model_dump()["prompt"] == value


def test_variables_become_numbers_where_numbers_are_wanted() -> None:
    config = checked("workers: ${N}\ncache: {size: '${S}'}\n" + SOURCE, {"N": "5", "S": "2MB"})
    assert (config.workers, config.cache_size) == (5, 2_000_000)


@pytest.mark.parametrize("content", ["s3cret", "s3cret\n", "s3cret\r\n"])
def test_secrets_are_read_from_files_and_never_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_bytes(content.encode())
    file = tmp_path / "config.yaml"
    file.write_text("chroma: {host: db, token: 'file:token'}\n" + SOURCE)
    config = load(file, {})
    assert isinstance(config.chroma, Remote) and config.chroma.token
    assert config.chroma.token.get_secret_value() == "s3cret"
    assert "s3cret" not in f"{config!r} {config} {config.chroma.model_dump_json()}"


@pytest.mark.parametrize(
    "token", ["'${T}'", "'Bearer ${T}'", "'${UNSET:-anybody}'", "file:token", "'file:${F}'", "''"]
)
def test_a_secret_is_written_as_a_variable_or_a_file(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text("s3cret")
    file = tmp_path / "config.yaml"
    file.write_text(f"chroma: {{host: db, token: {token}}}\n{SOURCE}")
    assert load(file, {"T": "s3cret", "F": "token"}).warnings == ()


PLAIN = "is a secret and must not be in plain text: write ${NAME} and set that variable, or file:/path"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (f"chroma: {{host: db, token: s3cret}}\n{SOURCE}", f"1: chroma.token: {PLAIN}"),
        (f"chroma: {{host: db, token: '$${{s3cret}}'}}\n{SOURCE}", f"1: chroma.token: {PLAIN}"),
        (
            f"chunking:\n  strategy: llm\n  base_url: http://h/v1\n  model: m\n  api_key: s3cret\n{SOURCE}",
            f"5: chunking.api_key: {PLAIN}",
        ),
        (
            "sources:\n- {name: a, kind: push, token: s3cret, folder: f, collection: abc}",
            f"2: sources[0].token: {PLAIN}",
        ),
        (
            "sources:\n- {name: a, kind: web, start: [http://h/], collection: abc,\n"
            "   headers: {Cookie: s3cret}}",
            f"3: sources[0].headers.Cookie: {PLAIN}",
        ),
        (
            "sources:\n- {name: a, kind: files, url: 's3://b', collection: abc, options: {\n"
            "   client_kwargs: {aws_secret_access_key: s3cret}, username: ada, token: anon}}",
            "3: sources[0].options.client_kwargs.aws_secret_access_key: looks like a secret: "
            "write ${NAME}, or put it into `secrets`, which also takes file:/path",
        ),
    ],
)
def test_a_secret_in_plain_text_is_an_error_that_does_not_tell_it(config: str, problem: str) -> None:
    assert said(config) == [problem]


@pytest.mark.parametrize(
    "value", ["*s3cret", "!s3cret", "!!s3cret", "!s3!cret", "'${s3-cret'", "'a${s3 cret}'"]
)
def test_a_secret_that_is_no_yaml_is_not_told_either(value: str) -> None:
    (problem,) = said(f"chroma:\n  host: db\n  token: {value}\n{SOURCE}")
    assert problem.startswith("3: ") and "s3" not in problem


def test_text_that_yaml_1_1_would_change_stays_as_written() -> None:
    for written in ("yes", "no", "off", "2026-01-02", "0o17", "0x1F", "1_000", "12:30", "1e3x", "=", ".inf"):
        assert checked(f"embedding: {{prompt: {written}}}\n{SOURCE}").embedding.options.model_dump()[
            "prompt"
        ] == (written)


def test_aliases_and_merges() -> None:
    config = checked(
        """
        sources:
          - &base {name: a, kind: folder, path: docs, collection: abc, max_size: 1MB}
          - {<<: *base, name: b, path: more}
        """
    )
    assert [entry.connector.options.model_dump()["max_size"] for entry in config.sources] == [10**6, 10**6]
    assert [entry.name for entry in config.sources] == ["a", "b"]


@pytest.mark.parametrize("file", ["config.yaml", "ingestor/templates/config.yaml", "docker/config.yaml"])
def test_the_configs_that_come_with_the_program(file: str) -> None:
    config = load(ROOT / file, {})
    assert config.warnings == ()
    assert config.sources[0].connector.plugin.kind == "folder"


# --- bad ones ----------------------------------------------------------------------------------------------

SOURCE_KEYS = (
    "allowed: archives, chunking, collection, exclude, hidden, ignore_files, include, kind, max_loss, "
    "max_size, name, parsing, path, poll, scan_every, settle, symlinks, watch"
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
            "1: unknown key 'wokers'; did you mean 'workers'? allowed: cache, chroma, chunking, embedding, "
            "log, max_loss, max_records, parsing, prune, rechunk, scan_every, sources, state, workers",
        ),
        ("workers: many", "1: workers: must be a whole number, not 'many'"),
        ("workers: 1.5", "1: workers: must be a whole number, not 1.5"),
        ("workers: [3]", "1: workers: must be a whole number, not a list"),
        ("workers: true", "1: workers: must be a number, not true or false"),
        ("workers: 0", "1: workers: must be at least 1, not 0"),
        ("workers: 65", "1: workers: must be at most 64, not 65"),
        ("workers: null", "1: workers: must be a whole number, not empty"),
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
        (r'state: "a\0b"', "1: state: must be a path without NUL characters and lone surrogates"),
        (r'state: "a\uD800b"', "1: state: must be a path without NUL characters and lone surrogates"),
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
            "1: chunking: unknown key 'sise'; did you mean 'size'? allowed: context, "
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
            "1: embedding.precision: must be 'auto', 'float32' or 'bfloat16', not 'float64'",
        ),
        ("embedding: {model: 7}", "1: embedding.model: must be text, not a number (put it in quotes)"),
        (
            "chroma: {path: c, ssl: true}",
            "1: chroma: unknown key 'ssl'; allowed: embedded, host, hosts, path, port, token",
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
            "1: chroma.token: must be ASCII letters, digits and punctuation: Chroma's clients take no other",
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
def test_a_bad_top_level(top: str, message: str) -> None:
    message = message.replace("{chunkers}", ", ".join(kinds("chunkers")))
    message = message.replace("{embedders}", ", ".join(kinds("embedders")))
    assert said(f"{top}\n{SOURCE}") == [message]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"exlude": []}, f"sources[0]: unknown key 'exlude'; did you mean 'exclude'? {SOURCE_KEYS}"),
        ({"name": "my docs"}, f"sources[0].name: {NAME}"),
        ({"name": ""}, f"sources[0].name: {NAME}"),
        ({"name": 3}, "sources[0].name: must be text, not a number (put it in quotes)"),
        ({"collection": "ab"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "-abc"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "a b c"}, f"sources[0].collection: {COLLECTION}"),
        ({"collection": "abc\n"}, f"sources[0].collection: {COLLECTION}"),
        (
            {"collection": "a..b"},
            "sources[0].collection: must not hold two periods in a row, nor look like an IP address",
        ),
        (
            {"collection": "10.0.0.1"},
            "sources[0].collection: must not hold two periods in a row, nor look like an IP address",
        ),
        (
            {"kind": "foldr"},
            "sources[0].kind: unknown connector 'foldr'; did you mean 'folder'? installed: {connectors}",
        ),
        ({"kind": ["folder"]}, "sources[0].kind: must be text, not a list"),
        ({"path": ""}, "sources[0].path: must name a folder"),
        ({"path": ["x"]}, "sources[0].path: must be a path, not a list"),
        ({"include": "*.md"}, "sources[0].include: must be a list, not text"),
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
            "sources[0].chunking: unknown key 'max_sentences'; did you mean 'max_tokens'? allowed: context, "
            "max_tokens, min_tokens, neighbours, overlap, size, strategy, unit",
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
            "sources[0].parsing.types.*.txt: must be a parser of text (asciidoc, csv, docbook, fb2, html, "
            "json, latex, man, markdown, mediawiki, notebook, org, rst, subtitles, text, toml, xml, yaml) or "
            "a type as text/x-python, not 'pdf'",
        ),
        ({"path": "~nobody-of-this-name"}, "sources[0]: can't be used: Could not determine home directory."),
    ],
)
def test_a_bad_source(keys: dict[str, object], message: str) -> None:
    groups: tuple[Group, ...] = ("connectors", "parsers")
    for group in groups:
        message = message.replace(f"{{{group}}}", ", ".join(kinds(group)))
    assert said(source(**keys)) == [f"1: {message}"]


@pytest.mark.parametrize("key", ["name", "kind", "path", "collection"])
def test_what_a_source_must_have(key: str) -> None:
    lines = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}
    kept = "\n    ".join(f"{name}: {value}" for name, value in lines.items() if name != key)
    assert said(f"sources:\n  -\n    {kept}\n") == [f"3: sources[0].{key}: is required"]
    empty = kept + f"\n    {key}:"
    assert said(f"sources:\n  -\n    {empty}\n") == [f"6: sources[0].{key}: is required"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0: is empty; `ingestor init` writes a commented config"),
        ("# nothing\n\n", "0: is empty; `ingestor init` writes a commented config"),
        ("- a\n", "1: must be a mapping of keys to values"),
        ("just text\n", "1: must be a mapping of keys to values"),
        ("state: x\n", "1: sources: is required"),
        ("sources: []\n", "1: sources: must have at least 1 item"),
        ("sources: {name: a}\n", "1: sources: must be a list, not a mapping"),
        ("sources:\n  - a\n", "2: sources[0]: must be a mapping of keys to values, not text"),
        ("state: a\nworkers: 3\nstate: b\n" + SOURCE, "3: key 'state' is given twice, first on line 1"),
        (
            SOURCE + "log:\n\tlevel: info\n",
            "4: not valid YAML: while scanning for the next token found character "
            "'\\t' that cannot start any token (indent with spaces, not with tabs)",
        ),
        (
            "state: @x\n",
            "1: not valid YAML: while scanning for the next token found character '@' that cannot "
            "start any token (put a value that starts with this character in quotes)",
        ),
        (
            "state: a: b\n",
            "1: not valid YAML: mapping values are not allowed here (put a value that holds ': ' in "
            "quotes, and check the indentation)",
        ),
        (
            "state: [a\nworkers: 3\n",
            "2: not valid YAML: while parsing a flow sequence expected ',' or ']', but got "
            "':' (check the indentation and the brackets)",
        ),
        (
            "state: *x\n",
            "1: not valid YAML: found undefined alias (put a value that starts with * in quotes, or "
            "define the anchor above)",
        ),
        (
            "include: [*.md]\n",
            "1: not valid YAML: while scanning an alias expected alphabetic or numeric character, "
            "but found '.' (put a value that starts with * or & in quotes)",
        ),
        (
            "state: a\n---\nstate: b\n",
            "2: not valid YAML: expected a single document in the stream but found another "
            "document (a config is one document: remove the line '---' in its middle)",
        ),
        ("state: a\nx: \x07\n", "2: not valid YAML: the character U+0007 is not allowed"),
        ("[" * 5000, "0: is nested too deeply"),
        (
            "state: !!binary x\n" + SOURCE,
            "1: state: tags are not allowed: put a value that starts with ! in quotes",
        ),
        (
            "chunking: {strategy: recursive, separators: &a [*a]}\n" + SOURCE,
            "1: chunking.separators[0]: an alias must not contain itself",
        ),
        ("? [a]\n: b\n" + SOURCE, "1: a key must be plain text"),
        ("<<: 3\n" + SOURCE, "1: << must be followed by an alias of another mapping"),
        (
            "state: ${NOPE}\n" + SOURCE,
            "1: state: environment variable NOPE is not set; set it, or write ${NOPE:-some default}",
        ),
        (
            "state: ${NO-PE}\n" + SOURCE,
            "1: state: '${' must begin ${NAME} or ${NAME:-default}; write '$${' for a plain '${'",
        ),
    ],
)
def test_bad_yaml(text: str, message: str) -> None:
    assert said(text) == [message]


def test_sources_need_names_of_their_own() -> None:
    text = """
        sources:
          - {name: a, kind: folder, path: x, collection: abc}
          - {name: broken, kind: folder, path: x, collection: a}
          - name: a
            kind: folder
            path: y
            collection: abc
        """
    assert said(text) == [
        f"4: sources[1].collection: {COLLECTION}",
        "5: sources[2].name: 'a' is also the name of sources[0]",
    ]


def two(first: str, second: str, collection: str = "abc") -> str:
    return (
        f"sources:\n  - {{name: a, kind: folder, collection: abc, {first}}}\n"
        f"  - {{name: b, kind: folder, collection: {collection}, {second}}}\n"
    )


@pytest.mark.parametrize("path", ["x", "./x/", "y/../x", "/conf/x"])
def test_one_folder_feeds_a_collection_once(path: str) -> None:
    same = "lists the same documents for the same collection as sources[0] (a): remove one of them"
    assert said(two("path: x", f"path: {path}")) == [f"3: sources[1]: {same}"]
    assert checked(two("path: x", f"path: {path}", "other")).warnings == ()


@pytest.mark.parametrize(
    ("first", "second", "warned"),
    [
        ("path: x", "path: x/y", True),
        ("path: x/y", "path: x", True),
        ("path: x", "path: x, include: ['*.md']", True),
        ("path: /", "path: x", True),
        ("path: x", "path: xy", False),
        ("path: x", "path: y", False),
    ],
)
def test_folders_that_overlap_in_a_collection_are_warned_of(first: str, second: str, warned: bool) -> None:
    safe = "state: .state\nchroma: {host: db}\n"
    warning = (
        "sources[1].path: overlaps with sources[0] (a), which feeds the same collection: "
        "files in both are indexed twice"
    )
    found = [f"{problem.line}: {problem}" for problem in checked(safe + two(first, second)).warnings]
    assert found == [f"5: {warning}"] * warned
    assert checked(safe + two(first, second, "other")).warnings == ()


def pushes(folder: str, port: int) -> str:
    one, other = (
        f"kind: push, token: '${{T:-t}}', folder: {f}, port: {p}" for f, p in (("x", 8100), (folder, port))
    )
    return (
        "chroma: {port: 8000}\nsources:\n"
        f"  - {{name: a, collection: abc, {one}}}\n  - {{name: b, collection: other, {other}}}\n"
    )


@pytest.mark.parametrize(("port", "who"), [(8100, "sources[0]"), (8000, "chroma")])
def test_no_two_listen_on_one_port(port: int, who: str) -> None:
    assert said(pushes("y", port)) == [
        f"4: sources[1].port: {port} is also the port of {who}: choose another"
    ]


@pytest.mark.parametrize(("folder", "port"), [("x", 8100), ("y", 8101)])
def test_one_that_feeds_two_collections_is_one(folder: str, port: int) -> None:
    assert len(checked(pushes(folder, port)).sources) == 2


def own(folder: str, key: str, exclude: str) -> str:
    return (
        f"sources[0].path: holds {folder} ({key}), whose files would become documents and never stop "
        "changing: "
        f"{exclude}move it out of source 'a'"
    )


STATE = own("/conf/docs/state", "state", "exclude it (exclude: ['/state/']) or ")
CHROMA = own("/conf/docs/x/chroma", "chroma.path", "exclude it (exclude: ['/x/chroma/']) or ")


@pytest.mark.parametrize(
    ("places", "keys", "expected"),
    [
        ("state: docs/state", {}, [STATE]),
        ("state: docs/state", {"include": ["**/*.json"]}, [STATE]),
        ("state: docs/state", {"include": ["**/*.md"]}, []),
        ("state: docs/state", {"exclude": ["/state/"]}, []),
        ("state: docs/state", {"exclude": ["state/*"]}, []),
        ("state: docs/state", {"exclude": ["state", "!state"]}, [STATE]),
        ("state: docs/.state", {}, []),
        ("state: docs/.state/x", {}, []),
        (
            "state: docs/.state",
            {"hidden": True},
            [own("/conf/docs/.state", "state", "exclude it (exclude: ['/.state/']) or ")],
        ),
        ("state: docs", {}, [own("/conf/docs", "state", "")]),
        ("state: docs-state", {}, []),
        ("state: .", {}, []),
        ("chroma: {path: docs/x/chroma}", {}, [CHROMA]),
        ("chroma: {path: docs/x/chroma, embedded: true}", {}, [CHROMA]),
        ("chroma: {path: docs/x/chroma}", {"exclude": ["*.sqlite3"]}, [CHROMA]),
        ("chroma: {path: docs/x/chroma}", {"exclude": ["x/"]}, []),
        ("chroma: {host: db}", {"path": "."}, []),
    ],
)
def test_a_source_must_not_list_what_the_program_writes(
    places: str, keys: dict[str, object], expected: list[str]
) -> None:
    text = f"{places}\n{source(**keys)}"
    if expected:
        assert said(text) == [f"2: {message}" for message in expected]
    else:
        assert checked(text).sources[0].name == "a"


def test_all_that_is_wrong_is_said_at_once_by_line() -> None:
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
    assert [line.partition(": unknown")[0].partition(": must")[0] for line in said(text)] == [
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


SECRETS = ["s3cret", "s3cret\\", "s3'cr\"et", "s3\ncret"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        "workers: ${S}",
        "scan_every: ${S}",
        "cache: {size: 'x${S}'}",
        "log: {level: '${S}'}",
        "chroma: {host: 'http://${S}'}",
        "chroma: {host: db, ssl: '${S}'}",
        "chroma: {host: db, token: '${S}', port: 0}",
        "embedding: {kind: '${S}'}",
        "chunking: {strategy: '${S}'}",
        "chunking: '${S}'",
    ],
)
def test_what_a_variable_holds_is_never_said(place: str, secret: str) -> None:
    text = "\n".join(said(f"{place}\n{SOURCE}", {"S": secret}))
    for shown in (secret, repr(secret)[1:-1], "s3"):
        assert shown not in text


# --- files -------------------------------------------------------------------------------------------------


def failure(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert caught.value.file == str(file)
    return str(caught.value).replace(str(file), "FILE")


def test_files_that_are_no_config(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    assert failure(file) == "FILE: does not exist; `ingestor init` writes one, --config names another"
    assert failure(tmp_path) == "FILE: can't be read: Is a directory"
    assert failure(file / "x").startswith("FILE: ")
    file.write_bytes("state: a\nx: Grüße".encode("latin-1"))
    assert failure(file) == "FILE:2: is not UTF-8 text"
    assert failure(file / "below") == "FILE: can't be read: Not a directory"
    file.write_text("workers: 0\n" + SOURCE)
    assert failure(file) == "FILE:1: workers: must be at least 1, not 0"


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    assert load(file, {}).state == tmp_path / ".ingestor"


def test_the_folders_options_know_what_the_folder_lists(tmp_path: Path) -> None:
    """``takes``, which the check of our own files rests on, agrees with a real listing."""
    names = ["a.md", "b.txt", ".h.md", "x/a.md", "x/.h/a.md", "x/y/b.txt", "x/y/~$a.md", "z/a.md", "z/k.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for keys in (
        {},
        {"include": ["*.md"]},
        {"include": ["x/", "!x/y/"]},
        {"exclude": ["z/*", "!z/k.md"]},
        {"exclude": ["x"]},
        {"hidden": True},
        {"include": ["/x/**/*.txt", "z"]},
    ):
        options = FolderOptions.model_validate({"path": tmp_path, **keys})
        listed = {item.key for item in Folder(options).scan()}
        assert listed == {name for name in names if options.takes(tmp_path / name)}, keys
        assert listed


# --- any text at all ---------------------------------------------------------------------------------------

_LINES = (ROOT / "ingestor/templates/config.yaml").read_text().splitlines()
_SCRAPS = st.sampled_from(
    [
        *_LINES,
        *"\t \"'[]{}:,#&*!|>%@`?-~$",
        "${",
        "${A}",
        "$${A}",
        "${A:-",
        "<<: *a",
        "&a",
        "*a",
        "---",
        "\n  ",
        "\0",
        "\ud800",
        "file:",
        "~x/",
        "null",
        "1e999",
        "9" * 30,
    ]
)
_KEYS = st.sampled_from(
    [
        "state",
        "chroma",
        "embedding",
        "chunking",
        "cache",
        "sources",
        "name",
        "kind",
        "path",
        "collection",
        "log",
        "level",
        "size",
        "parsing",
        "text",
        "token",
        "host",
        "embedded",
        "strategy",
        "include",
        "scan_every",
        "x",
        "levels",
    ]
)
_LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(
        ["folder", "fixed", "hashing", "hierarchical", "5m", "abc", "1GB", "~", "file:/x", "${A}", "\0"]
    ),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=20,
)
_GOOD = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}


def _change(model: type[Options]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | st.dictionaries(st.sampled_from(list(model.model_fields)), _VALUES, max_size=1)


_FIRST = st.sampled_from([{"path": "more"}, {"path": "more/x"}, {"path": "."}, {"collection": "other"}])
_ALMOST = st.builds(
    lambda top, first, second: (
        {"sources": [_GOOD | first, _GOOD | {"name": "b", "path": "more"} | second]} | top
    ),
    *(_change(Settings), _FIRST | _change(SourceSettings), _change(FolderOptions)),
)
_TEXTS = st.one_of(
    st.text(),
    st.lists(_SCRAPS, max_size=12).map("\n".join),
    st.lists(_SCRAPS, max_size=12).map("".join),
    (_ALMOST | st.dictionaries(_KEYS, _VALUES, max_size=8)).map(
        lambda tree: yaml.safe_dump(tree, allow_unicode=True)
    ),
)


@given(text=_TEXTS)
def test_no_text_raises_but_a_config_error(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load(file, {"A": "a"})
    except ConfigError as error:
        lines = [problem.line for problem in error.problems]
    else:
        return
    assert lines and lines == sorted(lines)
    assert lines[0] >= 0 and lines[-1] <= text.count("\n") + 2


def test_types_of_a_source_go_before_those_of_all(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = "{name: a, kind: folder, path: docs, collection: abc"
    file.write_text(
        "parsing: {types: {'*.txt': rst, '*.inc': text/x-php}}\n"
        f"sources: [{source}}}, {source.replace('a,', 'b,').replace('docs', 'more')}, "
        "parsing: {text: {}, types: {'*.txt': text}}}]\n"
    )
    first, second = load(file, {}).sources
    assert first.types == (("*.txt", "text/x-rst"), ("*.inc", "text/x-php"))
    assert second.types == (("*.txt", "text/plain"), *first.types)
    assert [choice.plugin.kind for choice in second.parsing] == ["text"]
