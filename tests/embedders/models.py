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
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

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
