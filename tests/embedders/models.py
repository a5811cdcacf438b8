"""Small models with random weights, for what the packaged one can't show."""

import json
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

WORDS = [f"w{n}" for n in range(200)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HIDDEN = 32
WINDOW = 40


def tokenizer() -> Tokenizer:
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    made.normalizer = Lowercase()
    made.pre_tokenizer = Whitespace()
    return made


def transformer(folder: Path, padding_side: str) -> Transformer:
    backend = tokenizer()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(
        zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], SPECIAL, strict=True)
    )
    PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=WINDOW, padding_side=padding_side, **names
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(SPECIAL + WORDS), hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return Transformer(str(folder))


def save(
    folder: Path,
    pooling: str,
    *,
    projected: bool = False,
    padding_side: str = "right",
    include_prompt: bool = True,
) -> Path:
    """A BERT of two layers in that folder."""
    torch.manual_seed(7)
    first = transformer(folder / "parts", padding_side)
    stages = [first, Pooling(HIDDEN, pooling_mode=pooling, include_prompt=include_prompt)]
    stages += [Dense(HIDDEN, 24)] if projected else []
    SentenceTransformer(modules=[*stages, Normalize()], device="cpu").save(str(folder / "model"))
    return folder / "model"


def save_static(folder: Path) -> Path:
    """One vector a word and no transformer."""
    torch.manual_seed(8)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer(), embedding_dim=16)], device="cpu").save(
        str(folder)
    )
    return folder


def drop_window(folder: Path) -> None:
    """Leave it to the model to say how much it reads."""
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    del settings["model_max_length"]
    file.write_text(json.dumps(settings))


def save_family(folder: Path, family: str, pooling: str = "mean") -> Path:
    """A tiny encoder of that family in that folder, with weights large enough for every part to matter."""
    torch.manual_seed(9)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] if family == "bert" else ["<s>", "<pad>", "</s>", "<unk>"]
    pad, unknown, first, last = special if family == "bert" else (special[n] for n in (1, 3, 0, 2))
    backend = Tokenizer(WordLevel({word: n for n, word in enumerate(special + WORDS)}, unk_token=unknown))
    backend.normalizer, backend.pre_tokenizer = Lowercase(), Whitespace()
    ends = [(first, special.index(first)), (last, special.index(last))]
    backend.post_processor = TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": first, "sep_token": last}
    parts = folder / "parts"
    PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=WINDOW, **names).save_pretrained(parts)
    sizes = {
        "vocab_size": len(special + WORDS), "hidden_size": HIDDEN, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
        "pad_token_id": special.index(pad), "initializer_range": 0.3,
    }  # fmt: skip
    kind, config = {
        "bert": (BertModel, BertConfig),
        "xlm-roberta": (XLMRobertaModel, XLMRobertaConfig),
        "mpnet": (MPNetModel, MPNetConfig),
    }[family]
    kind(config(**sizes)).save_pretrained(parts)
    stages = [Transformer(str(parts), max_seq_length=WINDOW), Pooling(HIDDEN, pooling_mode=pooling)]
    SentenceTransformer(modules=stages, device="cpu").save(str(folder / "model"))
    return folder / "model"
