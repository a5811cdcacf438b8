"""The language that a document's text is in, as a filter; and found for documents that are there already."""

import sys
from pathlib import Path

import pytest

from tests.e2e.in_chroma import in_chroma
from tests.e2e.project import Project

TEXTS = dict(
    line.split(" ", 1)
    for line in (Path(__file__).parents[1] / "declaration.txt").read_text("utf-8").splitlines()
)
GERMAN = "result = collection.get(where={'language': 'de'})['documents']"
WITHOUT_DETECTION = """
import sys
from ingestor.pipeline import language
language.rules, language.identified = lambda: "", lambda document: document
del sys.argv[0]
from ingestor.cli.main import main
main()
"""


@pytest.mark.slow
def test_documents_made_before_detection_are_patched_and_nothing_is_embedded(project: Project) -> None:
    project.settings["chunking"] = {"strategy": "changepoint", "max_tokens": 40}
    project.configure()
    for code in ("de", "en", "ru"):
        (project.docs / f"{code}.txt").write_text(f"{TEXTS[code]}\n\n{TEXTS[code]}\n", "utf-8")
    (project.docs / "declared.html").write_text(f"<html lang=de-AT><p>{TEXTS['en']}", "utf-8")
    (project.docs / "code.py").write_text("def free(and_equal):\n    return 'in dignity and rights'\n")

    project.under = (sys.executable, "-c", WITHOUT_DETECTION)
    made = project.json("sync")["records"]["added"]

    project.under = ()
    patched = project.json("sync")
    assert patched["records"] == {"added": 0, "replaced": 0, "patched": made, "dropped": 0}
    assert patched["embedded"]["texts"] == 0

    found = in_chroma(project.folder / "chroma", "docs", GERMAN)
    assert " ".join(found).split() == (TEXTS["de"] + " " + TEXTS["de"]).split()
    languages = {meta["file_name"]: meta.get("language") for _, _, meta, _ in project.records()}
    assert languages == {
        "de.txt": "de", "en.txt": "en", "ru.txt": "ru", "declared.html": "de-AT", "code.py": None,
    }  # fmt: skip
