"""Strategies that ask a language model, through the real program: asked once, and no key in sight."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chunkers.laws import essay
from tests.e2e.project import Project, running
from tests.endpoint import KEY, Reply, refused, said, serving
from tests.waiting import wait


def answer(body: dict[str, Any]) -> Reply:
    pieces = body["messages"][1]["content"].count("<start_chunk_")
    return said(f"split_after: {min(3, pieces)}")


def asking(project: Project, base_url: str, **more: Any) -> Project:
    project.settings["chunking"] = {
        "strategy": "llm", "base_url": base_url, "model": "tiny", "api_key": "${MODEL_KEY}", "window": 200,
        "retries": 0, "prompt_price": 1.0, **more,
    }  # fmt: skip
    project.configure()
    return project


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", KEY)


def write(project: Project, count: int = 3) -> None:
    for number in range(count):
        (project.docs / f"{number}.txt").write_text(essay(8, 100 * number))


def strategies(project: Project) -> set[Any]:
    return {(meta["strategy"], meta.get("fallback")) for _, _, meta, _ in project.records()}


def nowhere(project: Project, *said: str) -> None:
    """The key is in no file of the project's state and in no words."""
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert any(path.name == "journal.sqlite3" for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert not any(KEY in words for words in said)


@pytest.mark.slow
def test_answered_questions_are_not_sent_again(project: Project) -> None:
    with serving(answer) as endpoint:
        asking(project, endpoint.base_url)
        write(project)
        plan = project.json("plan")
        assert endpoint.calls == 0
        assert plan["ask"]["calls"] >= 3
        assert plan["ask"]["cost"] == pytest.approx(plan["ask"]["prompt_tokens"] / 1e6, abs=1e-6)
        assert plan["embed"]["exact"] is False
        first = project.json("sync")
        assert first["asked"]["calls"] == endpoint.calls > 6
        assert first["asked"]["prompt_tokens"] == 10 * endpoint.calls
        assert first["asked"]["completion_tokens"] == 2 * endpoint.calls
        assert strategies(project) == {("llm", None)}
        asked = endpoint.calls
        assert project.json("plan")["ask"]["calls"] == 0
        assert project.json("sync")["asked"]["calls"] == 0
        asking(project, endpoint.base_url, min_tokens=20)  # other chunks of the same answers
        assert project.json("sync")["documents"]["rebuilt"] == 3
        assert endpoint.calls == asked
        fresh = Project(project.folder / "fresh", project.settings, {"path": str(project.docs)})
        (fresh.folder / "state").mkdir()
        shutil.copy(project.folder / "state" / "cache.sqlite3", fresh.folder / "state")
        assert fresh.json("sync")["documents"]["added"] == 3  # from nothing, but for the cache
        assert endpoint.calls == asked
        document = project.docs / "1.txt"
        document.write_text(document.read_text().replace("In case 103", "It is new that in case 103", 1))
        assert 1 <= project.json("sync")["asked"]["calls"] <= 4


@pytest.mark.slow
def test_second_look_sends_no_request_with_a_cache(project: Project) -> None:
    def look(name: str, *options: str) -> int:
        before = endpoint.calls
        found = project.json("chunk", str(project.docs / name), *options)
        assert found["chunks"]
        assert "fallback" not in found["chunks"][0]["metadata"]
        return endpoint.calls - before

    with serving(answer) as endpoint:
        asking(project, endpoint.base_url)
        write(project, 1)
        assert look("0.txt") == look("0.txt") > 1, "nowhere to keep answers"
        assert not (project.folder / "state").exists()
        project.json("sync")
        assert look("0.txt") == 0
        (project.docs / "new.txt").write_text(essay(8, 700))
        assert look("new.txt") > 1
        assert look("new.txt") == 0
        asked = endpoint.calls
        project.json("sync")
        assert endpoint.calls == asked, "what was looked at is known"
        auto = {"strategy": "auto", "prose": project.settings["chunking"]}
        project.settings["chunking"] = auto
        project.configure()
        assert look("new.txt") == 0
        assert look("new.txt", "--option", "short_tokens=10") == 0


def test_key_may_stand_in_a_file_also_within_auto(project: Project, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    pick = {"strategy": "llm", "model": "tiny", "window": 200, "api_key": f"file:{tmp_path / 'key'}"}
    with serving(answer) as endpoint:
        project.settings["chunking"] = {"strategy": "auto", "prose": {**pick, "base_url": endpoint.base_url}}
        project.configure()
        write(project, 1)
        project.json("sync")
        assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
        nowhere(project)


@pytest.mark.slow
def test_daemon_waiting_for_a_model_ends_at_a_signal(project: Project) -> None:
    def throttled(body: dict[str, Any]) -> Reply:
        return refused(429, "slow down", retry_after="25")

    with serving(throttled) as endpoint:
        asking(project, endpoint.base_url, retries=9)
        write(project, 2)
        with running(project) as daemon:
            wait(lambda: endpoint.calls > 0)
            assert daemon.stop() == 0
