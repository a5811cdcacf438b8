"""What a config does with the options of plugins that it has never heard of."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from ingestor import registry
from ingestor.config.check import check
from ingestor.config.models import DEFAULT_STRATEGY, Config, describe
from ingestor.config.yaml_tree import parse
from ingestor.ports import NeedsHuman
from ingestor.registry import Group, Options, Plugin, UnknownKind


class Login(Options):
    user: str
    password: SecretStr
    keys: tuple[Path, ...] = ()


class FakeOptions(Options):
    path: Path = Path("mail")
    login: Login | None = None
    folders: dict[str, Path] = Field(default={})
    rate: Literal["auto"] | Annotated[float, Field(gt=0)] = "auto"
    count: int | None = 5


FAKE = Plugin("fake", 1, FakeOptions, lambda options: options)


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(group: Group, kind: str) -> Plugin:
        if kind == "heavy":
            raise ModuleNotFoundError("No module named 'heavy'")
        if kind in ("fake", DEFAULT_STRATEGY, "sentence-transformers"):
            return FAKE
        raise UnknownKind(kind)

    monkeypatch.setattr(registry, "find", find)
    monkeypatch.setattr(registry, "kinds", lambda group: ("fake", "heavy"))


def result(keys: str, folder: Path = Path("/conf"), **env: str) -> Config | list[str]:
    text = f"sources:\n  - name: a\n    kind: fake\n    collection: abc\n    {keys}\n"
    found = check(parse(text, env), folder)
    return found if isinstance(found, Config) else describe("c", found).splitlines()


def options(keys: str, folder: Path = Path("/conf"), **env: str) -> Any:
    found = result(keys, folder, **env)
    assert isinstance(found, Config), found
    return found.sources[0].connector.options


def test_path_in_options_begins_at_folder_of_config() -> None:
    found = options("login: {user: u, password: '${P:-p}', keys: [k, /abs]}\n    folders: {x: y}")
    assert found.path == Path("/conf/mail")
    assert found.login.keys == (Path("/conf/k"), Path("/abs"))
    assert found.folders == {"x": Path("/conf/y")}


def test_secret_in_any_option_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    found = options("login: {user: u, password: 'file:password'}", tmp_path)
    assert found.login.password.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(found)
    assert (
        options("login: {user: 'file:password', password: '${P:-p}'}", tmp_path).login.user == "file:password"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "can't be read: No such file or directory"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff", "can't be read: not UTF-8 text"),
    ],
)
def test_unreadable_secret_is_reported_by_place(content: bytes | None, reason: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "password").write_bytes(content)
    said = result("login: {user: u, password: 'file:password'}", tmp_path)
    assert said == [f"c:5: sources[0].login.password: the secret file 'password' {reason}"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("rate: fast", "sources[0].rate: must be 'auto' or a number, not 'fast'"),
        ("rate: -1", "sources[0].rate: must be 'auto' or more than 0, not -1"),
        ("count: x", "sources[0].count: must be a whole number, not 'x'"),
        ("login: {user: u}", "sources[0].login.password: is required"),
        ("login: {user: u, pasword: p, password: p}",
         "sources[0].login: unknown key 'pasword'; did you mean 'password'? allowed: keys, password, user"),
        ("login: {user: u, password: 1234}",
         "sources[0].login.password: must be text, not a number (put it in quotes)"),
        ("chunking: recursive",
         "sources[0].chunking: must be a mapping of keys to values, not text: write {strategy: recursive}"),
        ("login: {user: u, password: p, keys: [a, 3]}",
         "sources[0].login.keys[1]: must be a path, not a number"),
        ("folders: {x: 3}", "sources[0].folders.x: must be a path, not a number"),
        ("chunking: {strategy: heavy}",
         "sources[0].chunking.strategy: strategy 'heavy' is installed but can't be loaded: "
         "No module named 'heavy'"),
    ],
)  # fmt: skip
def test_mistake_inside_options_is_located(keys: str, said: str) -> None:
    assert result(keys) == [f"c:5: {said}"]


def test_null_is_a_value_and_empty_key_is_omitted() -> None:
    assert options("count: null").count is None
    assert options("count:").count == 5
    assert options("rate: '${R}'", R="2.5").rate == 2.5


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no.such.module:PLUGIN", r"\(No module named 'no'\)"),
        ("json:loads", r"\(json:loads\) is not an ingestor Plugin"),
    ],
)
def test_plugin_that_cannot_be_loaded_is_named_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    monkeypatch.undo()  # of the fakes above
    entry = EntryPoint("ours", value, "ingestor.parsers")
    monkeypatch.setattr(registry, "entries", lambda group: (entry,))
    with pytest.raises(NeedsHuman, match=rf"parser 'ours' .*{why}.*: repair or uninstall its package"):
        registry.find("parsers", "ours")
