"""Secrets of a config are written as variables or files, and never shown."""

from pathlib import Path

import pytest

from ingestor.config.file import load
from ingestor.config.servers import RemoteChroma
from tests.config.written import SOURCE, mistakes


@pytest.mark.parametrize("content", ["s3cret", "s3cret\n", "s3cret\r\n"])
def test_secrets_are_read_from_files_and_never_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_bytes(content.encode())
    file = tmp_path / "config.yaml"
    file.write_text("chroma: {host: db, token: 'file:token'}\n" + SOURCE)
    config = load(file, {})
    assert isinstance(config.chroma, RemoteChroma) and config.chroma.token
    assert config.chroma.token.get_secret_value() == "s3cret"
    assert "s3cret" not in f"{config!r} {config} {config.chroma.model_dump_json()}"


@pytest.mark.parametrize(
    "token", ["'${T}'", "'Bearer ${T}'", "'${UNSET:-anybody}'", "file:token", "'file:${F}'", "''"]
)
def test_secret_as_variable_or_file_is_accepted(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text("s3cret")
    file = tmp_path / "config.yaml"
    file.write_text(f"chroma: {{host: db, token: {token}}}\n{SOURCE}")
    assert load(file, {"T": "s3cret", "F": "token"}).warnings == ()


@pytest.mark.parametrize(
    "value", ["*s3cret", "!s3cret", "!!s3cret", "!s3!cret", "'${s3-cret'", "'a${s3 cret}'"]
)
def test_secret_that_breaks_yaml_is_not_quoted(value: str) -> None:
    (problem,) = mistakes(f"chroma:\n  host: db\n  token: {value}\n{SOURCE}")
    assert problem.startswith("3: ") and "s3" not in problem


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
def test_value_of_a_variable_is_never_shown(place: str, secret: str) -> None:
    text = "\n".join(mistakes(f"{place}\n{SOURCE}", {"S": secret}))
    for shown in (secret, repr(secret)[1:-1], "s3"):
        assert shown not in text
