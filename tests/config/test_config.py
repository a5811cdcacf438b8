"""What a good config means."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from ingestor.config.file import load
from ingestor.config.models import OwnMetadata, readers_ask_service
from ingestor.config.quotas import CLOUD, UNBOUNDED
from ingestor.config.servers import Embedded, Http, RemoteChroma, Supervised
from ingestor.config.workers import Workers
from ingestor.config.yaml_tree import parse
from ingestor.connectors.folder.connector import FolderOptions
from tests.config.written import AT, SOURCE, load_text, mistakes, source


def test_config_of_sources_alone_is_valid() -> None:
    config = load_text(SOURCE)
    assert (config.state, config.chroma) == (AT / ".ingestor", Supervised(path=AT / "chroma"))
    assert config.embedding.plugin.kind == "sentence-transformers"
    assert config.chunking.plugin.kind == "changepoint"
    assert (config.cache_size, config.warnings) == (2 * 10**9, ())
    assert config.workers.count == min(64, 4 * (os.cpu_count() or 4))
    (only,) = config.sources
    assert (only.name, only.collection, only.parsing) == ("a", "abc", ())
    assert only.connector.options == FolderOptions(path=AT / "docs")
    assert only.chunking == config.chunking
    assert (only.scan_every, only.max_loss) == (300.0, 0.5)


PROFILES = {"full": "full", "lean": "lean", "[b, a, b]": ("a", "b")}
BY_COLLECTION = {"{abc: lean}": "lean", "{abc: [a]}": ("a",), "{other: lean}": "full"}


@pytest.mark.parametrize(("metadata", "expected"), [*PROFILES.items(), *BY_COLLECTION.items()])
def test_metadata_profile_is_that_of_the_collection(metadata: str, expected: object) -> None:
    other = "  - {name: b, kind: folder, path: more, collection: other}\n"
    assert load_text(f"metadata: {metadata}\n{SOURCE}{other}").sources[0].metadata == expected


def test_metadata_of_database_source_names_columns() -> None:
    own = {"values": {"a": 1, "since": "2026-11-22"}, "paths": {"*.md": {"b": ["x"]}}}
    sql = "{name: a, kind: sql, collection: abc, url: 'sqlite:///a.db', query: SELECT 1, key: a, text: '{b}'"
    assert load_text(f"sources: [{sql}, metadata: [c]}}]").sources[0].own == OwnMetadata()
    (only,) = load_text(source(metadata=own)).sources
    assert only.own.values == (("a", 1), ("since", "2026-11-22"))
    assert only.own.paths == (("*.md", (("b", ["x"]),)),)


def test_shards_are_those_of_the_collection() -> None:
    other = "  - {name: b, kind: folder, path: more, collection: OTHER}\n"
    text = f"collections: {{abc: {{shards: 3}}}}\n{SOURCE}{other}"
    assert [each.shards for each in load_text(text.replace("OTHER", "other")).sources] == [3, 1]
    wrong = "4: sources[1].collection: abc-1-of-3 is a shard of abc: choose another name"
    assert mistakes(text.replace("OTHER", "abc-1-of-3")) == [wrong]


def test_remote_chroma_has_tenant_headers_and_quotas() -> None:
    text = "chroma: {host: HOST, tenant: acme, database: prod, headers: {X-Key: '${KEY}'}QUOTAS}\n" + SOURCE

    def remote(host: str, quotas: str) -> RemoteChroma:
        config = load_text(text.replace("HOST", host).replace("QUOTAS", quotas), {"KEY": "s3cret"})
        assert isinstance(config.chroma, RemoteChroma)
        return config.chroma

    found = remote("db.example.org", "")
    assert (found.tenant, found.database, found.bounds) == ("acme", "prod", UNBOUNDED)
    assert found.headers == {"X-Key": SecretStr("s3cret")}
    assert remote("api.trychroma.com", "").bounds == remote("db", ", quotas: cloud").bounds == CLOUD
    assert remote("trychroma.com.example.org", "").bounds == UNBOUNDED
    assert remote("api.trychroma.com", ", quotas: none").bounds == UNBOUNDED
    own = remote("db", ", quotas: {write_records: 1000, key_bytes: null}").bounds
    assert own == CLOUD.model_copy(update={"write_records": 1000, "key_bytes": None})


def test_config_with_every_key_is_read() -> None:
    config = load_text(
        """
        state: /var/lib/x
        chroma: {path: data, port: 8001, host: 0.0.0.0}
        http: {port: 8002, hosts: [search], readers: model}
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
    assert config.http == Http(port=8002, hosts=("search",), readers="model")
    assert config.embedding.options.model_dump() == {"dimensions": 32}
    assert (config.cache_size, config.workers.count) == (500 * 10**6, 3)
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
        ("{host: db.example.org}", RemoteChroma(host="db.example.org")),
        (
            "{host: '::1', port: 9, token: '${T}', ssl: true}",
            RemoteChroma(host="::1", port=9, token=SecretStr("x"), ssl=True),
        ),
    ],
)
def test_chroma_has_three_forms(chroma: str, expected: object) -> None:
    assert load_text(f"chroma: {chroma}\n{SOURCE}", {"YES": "yes", "T": "x"}).chroma == expected


RECURSIVE = "{strategy: recursive, size: 300, overlap: 7}"


@pytest.mark.parametrize(
    ("top", "own", "strategy", "changed"),
    [
        (RECURSIVE, "{}", "recursive", {"size": 300, "overlap": 7}),
        (RECURSIVE, "{size: 400}", "recursive", {"size": 400, "overlap": 7}),
        (RECURSIVE, "{strategy: fixed}", "fixed", {"size": 200}),
        (RECURSIVE, "{strategy: recursive}", "recursive", {"size": 200, "overlap": 0}),
        ("{strategy: fixed, size: 300}", "{unit: characters}", "fixed", {"size": 300, "unit": "characters"}),
        ("{strategy: sentence}", "{max_tokens: null}", "sentence", {"max_tokens": None}),
        ("{strategy: sentence, max_tokens: 99}", "{max_tokens: }", "sentence", {"max_tokens": 99}),
    ],
)
def test_source_changes_options_or_strategy_of_chunking(
    top: str, own: str, strategy: str, changed: dict[str, object]
) -> None:
    text = f"chunking: {top}\n" + SOURCE.replace("abc}", f"abc, chunking: {own}}}")
    chosen = load_text(text).sources[0].chunking
    assert chosen.plugin.kind == strategy
    assert chosen.options == chosen.plugin.options.model_validate(changed)


def test_key_without_value_counts_as_missing() -> None:
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
    assert load_text(text) == load_text(SOURCE)


PATHS = {"docs": "/conf/docs", "./docs/": "/conf/docs", "../docs": "/docs", "/abs/x": "/abs/x", ".": "/conf"}


@pytest.mark.parametrize(("written", "path"), [*PATHS.items(), ("~/docs", "/home/ann/docs")])
def test_relative_paths_begin_at_folder_of_config(
    written: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    config = load_text(f"state: {written}\nchroma: {{path: {written}}}\n" + source(path="/elsewhere"))
    assert isinstance(config.chroma, Supervised)
    assert (config.state, config.chroma.path) == (Path(path), Path(path))
    options = load_text("state: /s\nchroma: {path: /c}\n" + source(path=written)).sources[0].connector.options
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
def test_variables_are_filled_in_inside_values(written: str, value: str) -> None:
    env = {"NAME": "ann", "EMPTY": "", "ODD": "${NAME}: [*x"}
    config = load_text(f"embedding: {{prompt: '{written}'}}\n{SOURCE}", env)
    assert config.embedding.options.model_dump()["prompt"] == value


def test_variable_in_number_becomes_a_number() -> None:
    config = load_text("workers: ${N}\ncache: {size: '${S}'}\n" + SOURCE, {"N": "5", "S": "2MB"})
    assert (config.workers.count, config.cache_size) == (5, 2_000_000)


def test_text_of_yaml_1_1_stays_as_written() -> None:
    for written in ("yes", "no", "off", "2026-01-02", "0o17", "0x1F", "1_000", "12:30", "1e3x", "=", ".inf"):
        options = load_text(f"embedding: {{prompt: {written}}}\n{SOURCE}").embedding.options
        assert options.model_dump()["prompt"] == written


@pytest.mark.parametrize("written", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_that_multiply_are_refused_at_once(written: str) -> None:
    rows = [f"k{n}: &k{n} {written.format(', '.join([f'*k{n - 1}'] * 9))}" for n in range(1, 10)]
    tree = parse("\n".join(["k0: &k0 {a: 1}", *rows]), {})
    assert (tree.data, [each.message for each in tree.problems]) == (
        None, ["has over 100,000 values: use fewer aliases"]
    )  # fmt: skip


def test_aliases_and_merges_are_resolved() -> None:
    config = load_text(
        """
        sources:
          - &base {name: a, kind: folder, path: docs, collection: abc, max_size: 1MB}
          - {<<: *base, name: b, path: more}
        """
    )
    assert [entry.connector.options.model_dump()["max_size"] for entry in config.sources] == [10**6, 10**6]
    assert [entry.name for entry in config.sources] == ["a", "b"]


def test_types_of_source_precede_those_of_top_level(tmp_path: Path) -> None:
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


def test_workers_take_a_number_or_a_mapping() -> None:
    assert load_text("workers: 3\n" + SOURCE).workers == Workers(count=3)
    assert load_text("workers: {kind: ray, count: 100, embedders: 0}\n" + SOURCE).workers.embedders == 0


@pytest.mark.parametrize(
    ("top", "port", "url", "asked"),
    [
        ("", 8001, "http://127.0.0.1:8001", True),
        ("http: true", 8001, "http://127.0.0.1:8001", True),
        ("http: {readers: model}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {path: c, host: 0.0.0.0}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}", 8001, "http://127.0.0.1:8001", False),
        ("chroma: {host: db}\nhttp: {readers: service}", 8001, "http://127.0.0.1:8001", True),
        ("chroma: {host: db}\nhttp: {public_url: 'https://x.org/s/'}", 8001, "https://x.org/s", True),
        ("chroma: {path: c, embedded: true}", 8001, "http://127.0.0.1:8001", False),
        ("http: {host: '::', token: '${T:-sixteen-letters-}', port: 9}", 9, "http://[::1]:9", True),
    ],
)
def test_readers_use_the_service_if_they_reach_it(top: str, port: int, url: str, asked: bool) -> None:
    config = load_text(f"{top}\n{SOURCE}")
    assert config.http is not None
    assert (config.http.port, config.http.url) == (port, url)
    assert readers_ask_service(config.http, config.chroma) is asked


def test_config_older_than_service_port_stays_valid() -> None:
    config = load_text(f"chroma: {{path: c, port: 8001}}\n{SOURCE}")
    assert config.http is None
    assert "no service port: 8001 is also the port of chroma" in str(config.warnings[0])
    assert load_text(f"http: false\n{SOURCE}").http is None


def test_reranker_is_off_by_default_and_its_key_is_a_secret() -> None:
    assert load_text(SOURCE).search.rerank is None
    given = "{url: 'http://127.0.0.1:80/rerank', api_key: '${KEY}', timeout: 500ms}"
    rerank = load_text(f"search: {{rerank: {given}}}\n{SOURCE}", {"KEY": "s3cret"}).search.rerank
    assert rerank is not None
    assert (rerank.timeout, rerank.hits) == (0.5, 20)
    assert "s3cret" not in repr(rerank)


def test_language_model_takes_a_secret_key_and_numbers_as_prices() -> None:
    assert load_text(SOURCE).language_model is None
    endpoint = "{base_url: 'http://h/v1', model: m, api_key: '${KEY}', prompt_price: 0.5, answer_price: 2}"
    model = load_text(f"language_model: {endpoint}\n{SOURCE}", {"KEY": "sk-1"}).language_model
    assert model is not None and model.api_key is not None
    assert (model.model, model.api_key.get_secret_value()) == ("m", "sk-1")
    assert (model.prompt_price, model.answer_price) == (0.5, 2)
