"""Options of every connector: names, values that are refused, and the examples in the docs."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ingestor.config.file import load
from ingestor.config.models import SourceSettings
from ingestor.registry import find, kinds

PAGE = Path(__file__).parents[2] / "docs/connectors.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_options_are_described_and_stand_beside_the_keys_of_every_source() -> None:
    for kind in kinds("connectors"):
        fields = find("connectors", kind).options.model_fields
        columns = {"metadata"} if kind == "sql" else set()  # a list; the source's own is a mapping
        assert fields.keys() & SourceSettings.model_fields.keys() == columns
        assert [name for name, field in fields.items() if not field.description] == []


def test_every_connector_is_in_the_table_and_has_an_example() -> None:
    text = PAGE.read_text("utf-8")
    for kind in kinds("connectors"):
        assert f"| `{kind}` |" in text
        assert kind == "folder" or any(f"kind: {kind}\n" in example for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_sound(example: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "config.yaml").write_text(re.sub(r"file:/\S+/\w+", "file:secret", example))
    config = load(tmp_path / "config.yaml", dict.fromkeys(re.findall(r"\$\{(\w+)\}", example), "s3cret"))
    assert config.sources
    assert "s3cret" not in repr(config)


SOUND: dict[str, dict[str, Any]] = {
    "folder": {"path": "x"},
    "git": {"url": "/x"},
    "imap": {"host": "imap.example.org", "username": "ada@example.org", "password": "s3cret-word"},
    "push": {"folder": "x", "token": "t"},
    "python": {"call": "a:b"},
    "sql": {"url": "sqlite:////x.db", "query": "SELECT * FROM x", "key": "id", "text": "{body}"},
    "web": {"start": ["https://x.test/"]},
}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("folder", {"path": ""}, "must name a folder"),
    ("folder", {"include": [" "]}, "must not be empty"),
    ("folder", {"ignore_files": ["a/.gitignore"]}, "file name without a path"),
    ("folder", {"symlinks": "always"}, "'skip', 'inside' or 'follow'"),
    ("folder", {"watch": "sometimes"}, "'auto', 'events', 'poll' or 'off'"),
    ("folder", {"sidecar": "*"}, "must be an ending such as .meta.yaml"),
    ("folder", {"poll": 0}, "greater than 0"),
    ("folder", {"max_size": "many"}, "expected a size"),
    ("folder", {"exlude": []}, "Extra inputs"),
    ("git", {"url": "./x"}, "must be an https"),
    ("git", {"url": "--upload-pack=x:y"}, "must be an https"),
    ("git", {"url": "ext::sh -c x"}, "must be an https"),
    ("git", {"url": "https://me:secret@host/x"}, "put it into `token`"),
    ("git", {"url": "https://secret@host/x"}, "put it into `token`"),
    ("git", {"ref": "--force"}, "name of a branch or tag"),
    ("git", {"ref": "a:b"}, "name of a branch or tag"),
    ("git", {"url": "git@host:x", "token": "t"}, "is for http and https"),
    ("imap", {"host": "imap://h"}, "must be the name of a host"),
    ("imap", {"username": "a\nb"}, "without control characters"),
    ("imap", {"folders": []}, "at least 1"),
    ("imap", {"folders": [""]}, "must not be empty"),
    ("imap", {"since": "yesterday"}, "a day such as"),
    ("imap", {"tls": "maybe"}, "starttls"),
    ("imap", {"port": 0}, "greater than or equal to 1"),
    ("push", {"token": ""}, "at least 1 item"),
    ("push", {"port": 0}, "greater than or equal to 1"),
    ("push", {"max_size": "1GB"}, "less than or equal to 500000000"),
    ("push", {"host": "http://x"}, "must be a host name"),
    ("push", {"token": "fifteen-letters", "host": "0.0.0.0"}, "must have at least 16 characters"),
    *(("python", {"call": call}, "must have the form package") for call in ("no colon", "a.b", "a:b()")),
    ("python", {"ending": "md"}, "must be a file name's ending"),
    ("python", {"key": []}, "at least 1 item"),
    ("python", {"timeout": 0}, "greater than 0"),
    *(
        (kind, {name: code}, "must have the form package")
        for kind, name in (("langchain", "loader"), ("llamahub", "reader"))
        for code in ("", "a b", "a:b:c", "a.b:", "../x:Y")
    ),
    ("sql", {"url": "/x.db"}, "must be a SQLAlchemy URL"),
    ("sql", {"url": "postgresql://me:secret@host/x"}, "put it into `password`"),
    ("sql", {"url": "postgresql://host/x?user=me&password=secret"}, "put it into `password`"),
    ("sql", {"url": "mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3Dsecret"}, "put it into `password`"),
    ("sql", {"query": "DELETE FROM x"}, "must be a SELECT"),
    ("sql", {"text": "no column"}, "must name a column in braces"),
    ("files", {"url": "bucket/x"}, "must be a URL"),
    ("files", {"url": "s3://"}, "must be a URL"),
    ("files", {"url": "nonsense://x"}, "no installed file system reads nonsense://"),
    ("files", {"url": "sftp://me:secret@host/x"}, "put it into `secrets`"),
    ("files", {"url": "zip://*.md::s3://bucket/x.zip"}, "zip:// would open an archive .*`archives: true`"),
    ("files", {"url": "zip://docs"}, "would open an archive without protection"),
    ("files", {"url": "libarchive://docs"}, "libarchive:// would open an archive"),
    ("files", {"url": "s3://bucket/x::zip://y"}, "one file system, without `::`"),
    ("files", {"url": "simplecache::s3://bucket/x"}, "without `::` or a caching protocol"),
    *(
        ("files", {"url": url}, "without `::` or a caching protocol")
        for url in ("simplecache://x", "reference://", "dir://x")
    ),
    ("feed", {"url": "feed://x.test/"}, "must be an address such as"),
    ("feed", {"url": "https://me:pw@x.test/feed"}, "must not contain a user or password"),
    ("web", {"start": []}, "at least 1 item"),
    ("web", {"start": ["ftp://x.test/"]}, "must be an address such as"),
    ("web", {"start": ["https://me:secret@x.test/"]}, "must not contain a user or password"),
    ("web", {"start": ["https://x.test/", "https://X.test"]}, "names an address twice"),
    ("web", {"within": ["https://x.test/a"]}, "must end with a slash"),
    ("web", {"follow": "everything"}, "Input should be 'none', 'sitemap' or 'links'"),
    ("web", {"allow_private": ["10.0.0.0/4"]}, "neither a host's name nor a network"),
    ("web", {"user": "ada"}, "set both `user` and `password`"),
    ("web", {"headers": {"A b": "x"}}, "can't be sent: its name must be"),
    ("web", {"headers": {"A": "x\r\nB: y"}}, "can't be sent: its name must be"),
    ("web", {"contact": "me (home)"}, "must be a URL or mail address"),
]


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_option_without_sense_is_refused(kind: str, options: dict[str, Any], message: str) -> None:
    model = find("connectors", kind).options
    if kind in SOUND:
        model.model_validate(SOUND[kind])
    with pytest.raises(ValidationError, match=message):
        model.model_validate({**SOUND.get(kind, {}), **options})
