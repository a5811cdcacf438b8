from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ingestor.model import Blob, Block, Document
from ingestor.pipeline import language
from ingestor.pipeline.language import (
    describe_foreign,
    describe_unknown,
    identify,
    is_english,
    language_of,
    sample_unknown,
)
from ingestor.registry import find

# The first article of the Universal Declaration of Human Rights, or its beginning.
TEXTS = dict(
    line.split(" ", 1)
    for line in Path(__file__).parents[1].joinpath("declaration.txt").read_text("utf-8").splitlines()
)
DICE = Random(1)
NO_PROSE = {
    "nothing": "",
    "few words": "Das ist wenig Text.",
    "numbers": "\n".join(" ".join(f"{DICE.random():.4f}" for _ in range(9)) for _ in range(60)),
    "a table's words": "\n".join(f"x{n}\tA-{n}\tkg\t{n / 7:.2f}" for n in range(300)),
    "base64": "".join(DICE.choices("ABCDEFabcdef0123456789+/", k=3000)),
    "addresses": "https://example.org/von/der/strasse/in/den/wald " * 40,
    "genes": " ".join("".join(DICE.choices("ACGT", k=10)) for _ in range(150)),
    "no letters": "— … — ☃ ☃ ☃ !!! " * 200,
}


@pytest.mark.parametrize("code", TEXTS)
def test_language_is_detected_from_a_sentence_or_two(code: str) -> None:
    assert language_of(TEXTS[code]) == code


@pytest.mark.parametrize("name", NO_PROSE)
def test_text_without_prose_has_no_language(name: str) -> None:
    assert language_of(NO_PROSE[name]) is None


DOUBTFUL = (
    "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima.",  # Croatian, Bosnian or Serbian
    "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama.",  # Indonesian or Malay
    "Smith Müller Rossi Dubois Novák García Kowalski Jensen Nagy Popescu Silva",
)


@pytest.mark.parametrize("text", DOUBTFUL)
def test_language_in_doubt_is_none(text: str) -> None:
    assert language_of(text) is None


NAMES = {"code": "py", "markdown": "md"}


def read(kind: str, text: str) -> Document:
    plugin = find("parsers", kind)
    document: Document = plugin.build(plugin.options()).parse(
        Blob(text.encode(), f"a.{NAMES.get(kind, kind)}")
    )
    return document


PYTHON = "\n".join(f"def double_{n}(value):\n    # twice as much\n    return 2 * value\n" for n in range(80))
READ = [
    ("markdown", f"# Rechte\n\n{TEXTS['de']}\n\n```python\n{PYTHON}```\n", "de"),
    ("markdown", f"---\nlang: fr\n---\n\n{TEXTS['de']}\n", "fr"),
    ("markdown", f"# Double\n\n```\n{PYTHON}```\n", None),
    ("html", f"<p>{TEXTS['pl']}</p><table>{'<tr><td>All human beings<td>are free</tr>' * 40}</table>", "pl"),
    ("html", f"<html lang=pt-BR><p>{TEXTS['de']}</p>", "pt"),
    ("html", f"<html lang=EN_us><p>{TEXTS['de']}</p>", "en"),
    ("latex", f"\\section{{Droits}}\n\n\\textbf{{Un}} \\emph{{mot}}. {TEXTS['fr']}\n", "fr"),
    ("rst", f"Menschen\n========\n\n{TEXTS['nl']}\n\n.. code-block:: python\n\n   return free\n", "nl"),
    ("text", f"{TEXTS['ja']}\n\n{TEXTS['ja']}\n", "ja"),
    ("text", TEXTS["sv"].replace(" ", "\n"), "sv"),
    ("code", PYTHON, None),
    ("csv", "name,right\n" + f"{TEXTS['en'].split('.')[0]},yes\n" * 40, None),
    ("json", '{"text": "' + TEXTS["en"] + '"}', None),
]


@pytest.mark.parametrize(("kind", "text", "expected"), READ)
def test_documents_get_the_language_of_their_prose(kind: str, text: str, expected: str | None) -> None:
    assert identify(read(kind, text)).language == expected


def test_code_under_any_name_has_no_language() -> None:
    document = Document("while free and equal: pass\n" * 50, (Block("code", 0, 1000),))
    assert identify(document) == document


def test_language_of_a_document_is_judged_by_a_sample_of_all_its_parts() -> None:
    """A licence in English before a German book does not make it English."""
    text = "\n\n".join([TEXTS["en"]] * 5 + [TEXTS["de"]] * 20_000)
    document = read("text", text)
    sample = "".join(language._prose(document))
    assert len(sample) <= 2000
    assert sample.count("Alle Menschen") > 30
    assert identify(document).language == "de"


def test_language_is_the_same_in_every_thread() -> None:
    texts = [*TEXTS.values(), *(a[:60] + b[:60] for a in TEXTS.values() for b in TEXTS.values())]
    alone = [language_of(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(language_of, texts)) == alone


def test_english_model_is_recognised_by_its_name() -> None:
    for model, english in [
        ("all-MiniLM-L6-v2", True), ("/models/all-MiniLM-L6-v2/", True),
        ("sentence-transformers/all-mpnet-base-v2", True), ("BAAI/bge-small-en-v1.5", True),
        ("intfloat/e5-base-v2", True), ("intfloat/multilingual-e5-small", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", False), ("BAAI/bge-m3", False),
        ("text-embedding-3-small", False), ("jina-embeddings-v2-base-de", False), ("", False),
    ]:  # fmt: skip
        assert is_english(model.rstrip("/").rpartition("/")[2]) is english


def test_warning_needs_most_of_three_documents() -> None:
    for counts, words in [
        ({"de": 2}, None),
        ({"de": 3}, "3 of 3 documents are in a language that small-en does not know (de); a multilingual"),
        ({"de": 5, "en": 5}, None),
        ({"en-us": 3, "en-GB": 2, "en_AU": 1, "EN": 1, "eng": 1}, None),
        ({"de-AT": 2, "de": 1}, "3 of 3 documents are in a language that small-en does not know (de); "),
        (
            {"de": 4, "ja": 2, "en": 5},
            "6 of 11 documents are in a language that small-en does not know (de, ",
        ),
    ]:
        made = describe_foreign(counts, "small-en")
        assert made is None if words is None else str(made).startswith(words)


def test_unknown_tokens_above_five_percent_are_reported() -> None:
    for unknown, tokens, words in [
        (49, 100, None),  # few
        (50, 1000, None),  # 5 %
        (101, 2000, "101 of 2,000 sampled tokens (5 %) are unknown to small-en, which"),
    ]:
        made = describe_unknown(unknown, tokens, "small-en")
        assert made is None if words is None else str(made).startswith(words)


def test_sample_takes_few_texts_from_whole_document() -> None:
    sampled = list[str]()

    def count(texts: Sequence[str]) -> tuple[int, int]:
        sampled.extend(texts)
        return 0, len(texts)

    assert sample_unknown([], count) == (0, 0)
    assert sample_unknown(["a"], count) == (0, 1)
    sampled.clear()
    assert sample_unknown([str(number) for number in range(100)], count)[1] == 8
    assert sampled[0] == "0"
    assert int(sampled[-1]) > 85
