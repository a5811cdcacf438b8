"""docs/config.md and the sample configs say what the program checks."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from ingestor.config import models as config_models
from ingestor.config import servers
from ingestor.config.file import load
from ingestor.config.models import Settings, SourceSettings
from ingestor.config.servers import Embedded, RemoteChroma, Supervised
from ingestor.registry import find

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/config.md"
TEMPLATE = ROOT / "ingestor/templates/config.yaml"
SOURCE = "sources: [{name: notes, kind: folder, path: notes, collection: docs}]\n"


def tables() -> ModuleType:
    spec = spec_from_file_location("config_tables", ROOT / "docs/config_tables.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_config_tables_are_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert tables().page(text) == text, "run: .venv/bin/python docs/config_tables.py"


def test_outdated_config_table_is_reported() -> None:
    text = PAGE.read_text("utf-8")
    assert "| `workers` |  |" in text
    assert tables().page(text.replace("| `workers` |  |", "| `workers` | `3` |")) == text


def test_every_section_of_config_has_a_table() -> None:
    models = {
        name
        for name, value in (vars(config_models) | vars(servers)).items()
        if isinstance(value, type) and "model_fields" in dir(value)
    }
    shown = set(re.findall(r"<!-- table (\w+) -->", PAGE.read_text("utf-8")))
    assert shown == models - {"Options"} | {"connectors", "parsers", "chunkers", "embedders", "shared"}


@pytest.mark.parametrize(
    "model", [Settings, SourceSettings, Supervised, RemoteChroma, find("connectors", "folder").options]
)
def test_every_key_has_a_description(model: type[config_models.Options]) -> None:
    assert [name for name, field in model.model_fields.items() if not field.description] == []


EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_docs_are_valid_configs(example: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    example = re.sub(r"file:/run/secrets/\w+", "'${T:-t0ken}'", example)
    if example.startswith("parsing:"):
        example = SOURCE.replace("}]", f", {example.strip()}}}]")
    file.write_text(example if "sources:" in example else example + SOURCE)
    assert load(file, {}).sources


@pytest.mark.parametrize("file", [ROOT / "config.yaml", TEMPLATE])
def test_sample_configs_are_valid(file: Path) -> None:
    found = load(file, {})
    assert found.state == file.parent / ".ingestor"
    assert found.chroma == Supervised(path=file.parent / "chroma", port=8000)
    (source,) = found.sources
    assert (source.collection, found.warnings) == ("docs", ())
    assert source.connector.plugin.kind == "folder"
    assert getattr(source.connector.options, "path") == file.parent / "documents"  # noqa: B009 (any connector's)
    assert load(ROOT / "deploy/docker/config.yaml", {}).warnings == ()


def test_template_shows_every_top_level_key() -> None:
    text = TEMPLATE.read_text("utf-8")
    assert [key for key in Settings.model_fields if not re.search(rf"^(# )?{key}:", text, re.MULTILINE)] == []


TEMPLATE_LINES = TEMPLATE.read_text("utf-8").splitlines()
COMMENTED = [at for at, line in enumerate(TEMPLATE_LINES) if re.match(r" *# \w+: ", line)]


@pytest.mark.parametrize("at", COMMENTED)
def test_commented_lines_of_template_are_valid(at: int, tmp_path: Path) -> None:
    line = TEMPLATE_LINES[at].replace("# ", "", 1)
    lines = [*TEMPLATE_LINES[:at], line, *TEMPLATE_LINES[at + 1 :]]
    file = tmp_path / "config.yaml"
    file.write_text("\n".join(lines))
    assert load(file, {"CHROMA_TOKEN": "t0ken"}).sources
    assert yaml.safe_load(file.read_text()) != yaml.safe_load(TEMPLATE.read_text("utf-8"))


def test_forms_of_chroma_in_template_are_valid(tmp_path: Path) -> None:
    forms = re.findall(r"^  #   (\{.*\})$", TEMPLATE.read_text("utf-8"), re.MULTILINE)
    file = tmp_path / "config.yaml"
    kinds = []
    for form in forms:
        file.write_text(f"chroma: {form}\n{SOURCE}")
        kinds.append(type(load(file, {"CHROMA_TOKEN": "t0ken"}).chroma))
    assert kinds == [RemoteChroma, Embedded]
