"""What holds for the options of every connector, and for the examples in the docs."""

import re
from pathlib import Path

import pytest

from ingestor.config.file import load
from ingestor.config.models import SourceSettings
from ingestor.registry import find, kinds

PAGE = Path(__file__).parents[2] / "docs/connectors.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("kind", kinds("connectors"))
def test_options_stand_beside_the_keys_of_every_source_and_say_what_they_mean(kind: str) -> None:
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
