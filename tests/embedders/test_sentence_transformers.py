"""Which model an embedder names, and where its files are: whatever engine runs it."""

import shutil
import sys
from pathlib import Path

import pytest

from ingestor.embedders import model_files
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman

TINY = Path(__file__).with_name("tiny")
network: list[str] = []
sys.addaudithook(lambda event, args: network.append(event) if event.startswith("socket.") else None)


def build(**options):
    return PLUGIN.build(SentenceTransformersOptions(**options))


@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("intfloat/multilingual-e5-small", "passage: ", "query: "),
        ("models/e5-base-v2/", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("all-MiniLM-L6-v2", "", ""),
    ],
)
def test_models_whose_files_lack_their_prompts_have_them_by_name(model, document, query):
    assert model_files.prompts(TINY, model) == model_files.Prompts(document, query)


def test_folder_missing_is_reported(tmp_path):
    for model in (str(tmp_path / "none"), "~nobody-of-this-name/model"):
        with pytest.raises(NeedsHuman, match="this folder does not exist"):
            _ = build(model=model).identity


def test_identity_of_a_folder_follows_its_content_not_its_place(tmp_path):
    moved = shutil.copytree(TINY, tmp_path / "moved")
    identity = build(model=str(TINY)).identity
    assert build(model=str(moved)).identity == identity
    (moved / "README.md").write_text("other words")
    assert build(model=str(moved)).identity == identity
    (moved / "tokenizer_config.json").write_text("{}")
    assert build(model=str(moved)).identity != identity


def test_model_on_the_hub_is_pinned_to_the_commit_in_the_local_cache(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--sentence-transformers--tiny"
    (place / "snapshots").mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    shutil.copytree(TINY, place / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    network.clear()
    embedder = build(model="tiny")
    assert embedder.identity["weights"] == f"sentence-transformers/tiny@{commit}"
    assert (embedder.dimensions, embedder.window) == (24, 40)
    assert network == []


def test_hub_out_of_reach_names_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(NeedsHuman, match="name a folder with the model"):
        _ = build(model="someone/some-model").identity


@pytest.mark.parametrize(
    ("weights", "fixed"),
    [
        (model_files.Weights("own", "sha256:1", Path("own")), False),
        (model_files.Weights("packaged", "sha256:1", Path("packaged"), sha256="1"), True),
        (model_files.Weights("hub", "hub@1", Path("1"), "1"), True),
    ],
)
def test_files_of_a_named_folder_may_change(weights, fixed):
    assert weights.is_fixed == fixed
