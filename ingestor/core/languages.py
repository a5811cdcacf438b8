"""Languages of documents beside those that an embedding model knows. Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ingestor.units import counted

REMEDY = "a multilingual model finds more: docs/first-collection.md, Languages"
_FEWEST = 3  # documents; fewer show nothing
_ENGLISH = re.compile(  # names of models that were trained on English alone
    r"all-(minilm|mpnet|distilroberta|roberta)|multi-qa-|(^|[-_/])en([-_]|$)|[-_]en[-_.]v?\d|^msmarco-"
    r"|(^|/)(e5|gte|bge)-(small|base|large)(-v\d[\d.]*)?$|nomic-embed-text-v1",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ModelLanguages:
    """Languages that a model knows, as ISO 639-1 codes."""

    model: str
    languages: frozenset[str]


def languages_of(model: str) -> ModelLanguages | None:
    """Return the languages of a model; None if its name does not show that they are few."""
    name = model.rstrip("/").rpartition("/")[2]
    return ModelLanguages(name, frozenset({"en"})) if _ENGLISH.search(name) else None


class LanguageCounts:
    """Documents by source and language, as they are prepared."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def add(self, source: str, language: str, known: ModelLanguages) -> str | None:
        """Count a document. Return a warning if the model knows the language of too few of the source."""
        counts = self._counts.setdefault(source, Counter())
        counts[language] += 1
        return describe_foreign(counts, known)


def describe_foreign(counts: Mapping[str, int], known: ModelLanguages) -> str | None:
    """Return what to say of documents by language; None if the model knows the language of half of them."""
    total = sum(counts.values())
    foreign = {language: number for language, number in counts.items() if language not in known.languages}
    number = sum(foreign.values())
    if number < _FEWEST or 2 * number <= total:
        return None
    most = sorted(foreign, key=lambda language: (-foreign[language], language))[:3]
    return (
        f"{number:,} of {counted(total, 'document')} are in a language that {known.model} does not know "
        f"({', '.join(most)}); {REMEDY}"
    )
