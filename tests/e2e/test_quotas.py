"""Chroma as Chroma Cloud: everything arrives once, whatever the server's quotas and moods are."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ingestor.chroma.client import Place, connect
from tests.chroma.quota_proxy import AFTER, BEFORE, Cloud, cloud_before
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.serving import HOST, shared_server

FRONT = "---\ntitle: Number {n}\nauthor: Ada\ndate: 2026-11-23\ntags: [one, two]\n---\n"
SECTIONS = 40


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[tuple[int, Cloud]]:
    with shared_server(tmp_path / "chroma") as running:
        base = f"http://{HOST}:{running.port}/api/v2/tenants"
        httpx.post(base, json={"name": "acme"})
        httpx.post(f"{base}/acme/databases", json={"name": "prod"})
        with cloud_before(running.port) as found:
            yield found


def test_everything_arrives_once_within_the_quotas(
    project: Project, ask: Ask, cloud: tuple[int, Cloud]
) -> None:
    port, seen = cloud
    project.settings = {
        "chroma": {"host": HOST, "port": port, "tenant": "acme", "database": "prod", "quotas": "cloud"},
        "chunking": {"strategy": "structure", "max_tokens": 60},
    }
    project.configure()
    for n in range(12):
        words = "".join(f"## Part {m}\n\nSome words of part {m} of number {n}.\n\n" for m in range(SECTIONS))
        (project.docs / f"{n}.md").write_text(FRONT.format(n=n) + words)
    (project.docs / "long.md").write_text("# " + "L" * 6000 + "\n\n" + "字" * 9000 + "\n")
    seen.faults = [(429, "0"), BEFORE, None, AFTER, (503, "1"), None, AFTER]
    first = answered(ask("sync", "--json"), 0)
    assert seen.faults == []
    assert (seen.refused, seen.at_once) == ({}, 1)
    count = first["records"]["added"]
    assert count > 12 * SECTIONS > 300
    with connect(HOST, port, place=Place("acme", "prod")) as client:
        found = client.api.get(client.api.get_collection("docs").id, include=["metadatas"], limit=300)[
            "metadatas"
        ]
    assert max(len(each) for each in found) == 32
    some = {"source", "path", "author", "tags", "chunk_index"}
    assert all(some <= each.keys() for each in found if each["path"] != "long.md")
    verified = answered(ask("verify", "--json"))
    assert verified["checked"] == count  # and it exits 0

    project.settings["metadata"] = "lean"
    project.configure()
    done = answered(ask("sync", "--json"))["records"]
    assert done == {"added": 0, "replaced": 0, "patched": count, "dropped": 0}
    (project.docs / "3.md").unlink()
    assert answered(ask("sync", "--json"))["records"]["dropped"] > SECTIONS
    assert "Everything is in order" in ask("verify").out
    assert answered(ask("query", "part 7 of number 5", "--json"))["hits"]
    assert seen.refused == {}


def test_a_text_that_the_server_does_not_take_stops_no_other(
    project: Project, ask: Ask, cloud: tuple[int, Cloud]
) -> None:
    port, seen = cloud
    chroma = {"host": HOST, "port": port, "tenant": "acme", "database": "prod"}
    project.settings = {
        "chroma": {**chroma, "quotas": "cloud"},
        "chunking": {"strategy": "fixed", "size": 8000},
    }
    project.configure()
    (project.docs / "good.md").write_text("# Good\n\nWords.\n")
    (project.docs / "long.md").write_text("word " * 7000)
    done = answered(ask("sync", "--json"), 3)
    assert done["documents"]["quarantined"] == 1
    [problem] = done["problems"]
    assert problem["document"] == "long.md" and "takes 16,384" in problem["reason"]
    assert (done["records"]["added"], seen.refused) == (1, {})
    project.settings["chroma"] = {**chroma, "quotas": {"document_bytes": None}}  # the server says it, too
    project.configure()
    done = answered(ask("sync", "--json"), 3)
    assert "'Document size' exceeded quota limit" in done["problems"][0]["reason"]
    assert done["documents"]["quarantined"] == 1
    assert answered(ask("verify", "--json"))["checked"] == 1
