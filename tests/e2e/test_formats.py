"""Binary formats through the whole program: what is found in them, and what harm they can do."""

import json
import re
from pathlib import Path

import pytest

from tests.bad_parser import installed
from tests.e2e.in_chroma import in_chroma
from tests.e2e.project import Project
from tests.hostile import documents, misbehaving
from tests.parsers.files import docx, epub, odf, paragraph, pdf, pptx, shape, xlsx

OPENING = [(50, 700, 24, "Report"), (50, 650, 10, "It opens."), (50, 638, 10, "It says little more.")]
SECTION = [(50, 700, 16, "2 Methods"), (50, 660, 10, "How it was done."), (50, 648, 10, "With great care.")]
SOUND = {
    "a.pdf": pdf([OPENING, SECTION]),
    "b.docx": docx(paragraph("Head", "", '<w:outlineLvl w:val="0"/>') + paragraph("Text of the section.")),
    "c.pptx": pptx("", shape("Title", placeholder="title") + shape("What the slide says.")),
    "d.xlsx": xlsx({"Sums": "<row><c><v>1</v></c><c><v>2</v></c></row>" * 2}),
    "e.odt": odf("text", "<text:h>Head</text:h><text:p>Text in an open format.</text:p>"),
    "f.epub": epub({"a.xhtml": "<h1>Chapter</h1><p>Once upon a time.</p>"}, ["a.xhtml"]),
    "misnamed.txt": docx(paragraph("A document by another name.")),
    "line.txt": " ".join(f"word{n}" for n in range(50_000)).encode(),
    "plain.md": b"# Plain\n\nText that needs nobody's help.\n",
}
METHODS = "2 Methods\n\nHow it was done. With great care."
FILTERS = {
    '{"$and": [{"page": 1}, {"content_type": "application/pdf"}]}': [METHODS],
    '{"heading_path": "Chapter"}': ["Chapter\n\nOnce upon a time."],
    '{"section_number": "2"}': [METHODS],
    '{"$and": [{"author": "Ada"}, {"created": "2024-01-02T03:04:05Z"}, {"block_kinds": "heading,table"}]}': [
        "Sums\n\n| 1 | 2 |\n| --- | --- |\n| 1 | 2 |"
    ],
}


@pytest.mark.slow
def test_harmful_documents_cost_themselves_and_nothing_else(project: Project, tmp_path: Path) -> None:
    project.settings["parsing"] = {"memory": "500MB", "seconds": 4, "processes": 2}
    project.settings["chunking"] = {"strategy": "structure"}
    project.source["archives"] = True
    project.configure()
    bad = documents() | misbehaving()
    for name, content in [*SOUND.items(), *((name, content) for name, (content, _) in bad.items())]:
        (project.docs / name).write_bytes(content)

    plugins = {"PYTHONPATH": installed(tmp_path / "plugins", "rtf")}
    synced = project.call("sync", "--json", env=plugins)
    assert synced.returncode == 3, synced.stderr
    listed = {entry["document"]: entry["state"] for entry in project.json("ls")}
    assert {name for name, state in listed.items() if state == "settled"} == set(SOUND)
    reasons = {entry["document"]: entry["reason"] for entry in json.loads(synced.stdout)["problems"]}
    for name, (_, reason) in bad.items():
        assert listed[name] == "quarantined", name
        assert re.search(reason, reasons[name]), (name, reasons[name])
    assert "seccomp" in project.json("status")["isolation"]
    assert "Traceback" not in synced.stdout + synced.stderr

    each = f"[{', '.join(FILTERS)}]"
    statement = f"result = [collection.get(where=where)['documents'] for where in {each}]"
    assert in_chroma(project.folder / "chroma", "docs", statement) == list(FILTERS.values())
    verified = project.call("verify", "--json", env=plugins)
    assert json.loads(verified.stdout)["checked"] > len(SOUND), verified.stdout
    assert verified.returncode == 0, verified.stdout
