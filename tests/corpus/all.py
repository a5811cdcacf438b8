"""All hostile inputs, in families of a size that one daemon meets at once."""

from functools import cache, partial
from itertools import islice

from tests import hostile
from tests.corpus import archives, formats, mails, office, pdfs, places, texts
from tests.corpus.case import Case, files

_FAMILY = 25
# Known without making them: pytest names the tests of each family in every process.
NAMES = (
    "documents-1", *(f"archives-{n}" for n in (1, 2)), *(f"pdfs-{n}" for n in (1, 2)),
    *(f"office-{n}" for n in (1, 2, 3)), *(f"mails-{n}" for n in (1, 2)),
    *(f"texts-{n}" for n in (1, 2, 3, 4, 5)), *(f"places-{n}" for n in (1, 2)),
    *(f"formats-{n}" for n in (1, 2, 3, 4)),
)  # fmt: skip


def documents() -> list[Case]:
    made = hostile.documents()
    return files({f"!{name}": partial(bytes, content) for name, (content, _) in made.items()})


@cache
def families() -> dict[str, list[Case]]:
    kinds = {
        "documents": documents(), "archives": archives.cases(), "pdfs": pdfs.cases(),
        "office": office.cases(), "mails": mails.cases(), "texts": texts.cases(), "places": places.cases(),
        "formats": formats.cases(),
    }  # fmt: skip
    found = {}
    for kind, cases in kinds.items():
        rest = iter(cases)
        for number in range(len(cases)):
            if not (family := list(islice(rest, _FAMILY))):
                break
            found[f"{kind}-{number + 1}"] = family
    return found
