"""A cross-encoder with random weights, and servers in both forms that say what they are told to."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.config.servers import Rerank
from ingestor.ports import NeedsHuman, Transient
from ingestor.search import rerankers as module
from ingestor.search.rerankers import cross_encoder, in_time, scores_of
from tests.endpoint import KEY, Reply, refused, serving

TEXTS = ["a bridge", "a harbour", "a library"]


def answer(value: object) -> Reply:
    return Reply(body=json.dumps(value).encode())


def rows(key: str) -> list[dict[str, Any]]:
    """Best first, as servers answer."""
    return [{"index": at, key: score} for at, score in ((2, 0.9), (0, 0.5), (1, 0.1))]


@pytest.mark.parametrize("path", ["", "/rerank", "/"])
def test_request_to_text_embeddings_inference_has_its_form(path: str) -> None:
    with serving(lambda body: answer(rows("score"))) as server:
        scores = scores_of(Rerank(url=server.base_url + path), patient=False)("where?", TEXTS)
    assert list(scores) == [0.5, 0.1, 0.9]
    assert server.bodies == [{"query": "where?", "texts": TEXTS, "truncate": True}]
    assert server.paths == ["/v1/rerank"]


def test_requests_to_cohere_and_jina_have_their_form() -> None:
    with serving(lambda body: answer({"results": rows("relevance_score")})) as server:
        options = Rerank.model_validate({"url": server.base_url, "model": "rerank-3", "api_key": KEY})
        assert list(scores_of(options, patient=False)("where?", TEXTS)) == [0.5, 0.1, 0.9]
    assert server.bodies == [{"model": "rerank-3", "query": "where?", "documents": TEXTS}]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer([]), "did not answer as a reranker does"),
        (answer({"results": 7}), "did not answer as a reranker does"),
        (answer([{"index": 0, "score": "good"}]), "did not answer as a reranker does"),
        (Reply(body=b"[" * 100_000), "did not answer as a reranker does"),
        (refused(401, f"bad key {KEY}"), "check `api_key`"),
        (refused(503, "loading"), "answered 503"),
        (Reply(body=b"x" * 5_000_001), "more than 5,000,000 bytes"),
        (Reply(hang=True), "within 0.3 s|longer than 0.3 s"),
    ],
)
def test_failing_server_leaves_hits_in_order(reply: Reply, says: str) -> None:
    with serving(lambda body: reply) as server:
        timeout = 0.3 if reply.hang else 30  # a busy machine answers late, too
        options = Rerank.model_validate({"url": server.base_url, "api_key": KEY, "timeout": timeout})
        with pytest.raises(Transient, match=says) as error:
            scores_of(options, patient=False)("where?", TEXTS)
    assert KEY not in str(error.value)


def test_queued_call_is_cancelled_after_timeout() -> None:
    gate, asked = threading.Event(), []

    def scores(question: str, texts: Any) -> list[float]:
        asked.append(question)
        gate.wait(60)
        return [0.0] * len(texts)

    bounded = in_time(scores, 0.05, 1)
    while not asked:  # a busy machine may begin it too late
        with pytest.raises(Transient, match=r"longer than 0.05 s"):
            bounded("first", TEXTS)
    for question in ("second", "third"):
        with pytest.raises(Transient, match=r"longer than 0.05 s"):
            bounded(question, TEXTS)
    gate.set()
    assert list(in_time(scores, 60, 1)("fourth", TEXTS)) == [0.0] * 3
    assert asked == ["first", "fourth"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tiny BERT with one score, its weights random but always the same."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "bridge", "harbour", "library", "where"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(7)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(words), num_labels=1, max_position_embeddings=64, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.torch
def test_cross_encoder_scores_each_text(model: Path) -> None:
    scores = scores_of(Rerank(model=str(model)), patient=True)
    found = scores("where", TEXTS)
    assert len(set(found)) == 3
    assert scores("where", TEXTS[::-1]) == pytest.approx(found[::-1], abs=1e-5)
    assert len(scores("where", ["a bridge " * 1000])) == 1, "longer than the model reads"


@pytest.mark.slow
@pytest.mark.torch
def test_missing_model_and_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NeedsHuman, match="cannot be loaded"):
        cross_encoder(str(tmp_path))("where?", TEXTS)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(NeedsHuman, match=r"ingestor\[torch\]"):
        cross_encoder("some/model")("where?", TEXTS)


def test_reranker_without_model_or_address_is_refused() -> None:
    with pytest.raises(ValueError, match="needs `model`"):
        Rerank()
