from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ingestor.model import Blob, Block, Document
from ingestor.pipeline import language
from ingestor.pipeline.language import identified, language_of
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
def test_a_sentence_or_two_are_enough(code: str) -> None:
    assert language_of(TEXTS[code]) == code


@pytest.mark.parametrize("name", NO_PROSE)
def test_what_is_no_prose_has_no_language(name: str) -> None:
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
    ("html", f"<html lang=pt-BR><p>{TEXTS['de']}</p>", "pt-BR"),
    ("latex", f"\\section{{Droits}}\n\n\\textbf{{Un}} \\emph{{mot}}. {TEXTS['fr']}\n", "fr"),
    ("rst", f"Menschen\n========\n\n{TEXTS['nl']}\n\n.. code-block:: python\n\n   return free\n", "nl"),
    ("text", f"{TEXTS['ja']}\n\n{TEXTS['ja']}\n", "ja"),
    ("text", TEXTS["sv"].replace(" ", "\n"), "sv"),
    ("code", PYTHON, None),
    ("csv", "name,right\n" + f"{TEXTS['en'].split('.')[0]},yes\n" * 40, None),
    ("json", '{"text": "' + TEXTS["en"] + '"}', None),
]


@pytest.mark.parametrize(("kind", "text", "expected"), READ)
def test_documents(kind: str, text: str, expected: str | None) -> None:
    assert identified(read(kind, text)).language == expected


def test_code_is_none_whatever_its_name() -> None:
    document = Document("while free and equal: pass\n" * 50, (Block("code", 0, 1000),))
    assert identified(document) == document


def test_the_whole_document_counts_and_no_more_of_it_is_read_than_enough() -> None:
    """A licence in English before a German book does not make it English."""
    text = "\n\n".join([TEXTS["en"]] * 5 + [TEXTS["de"]] * 20_000)
    document = read("text", text)
    sample = "".join(language._prose(document))
    assert len(sample) <= 2000
    assert sample.count("Alle Menschen") > 30
    assert identified(document).language == "de"


def test_threads_agree() -> None:
    texts = [*TEXTS.values(), *(a[:60] + b[:60] for a in TEXTS.values() for b in TEXTS.values())]
    alone = [language_of(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(language_of, texts)) == alone
