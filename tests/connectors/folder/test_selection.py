"""Which files of a folder are documents: patterns, hidden files, ignore files, links."""

import logging
import os
from pathlib import Path

import pytest

from ingestor.ports import PartialScan, Stale
from tests.connectors.folders import FolderWorld, plant, selected
from tests.connectors.laws import broken_off, fetched, listed


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "a.md a.txt docs/b.md docs/sub/c.md docs/sub/d.txt"),
        ({"include": ["*.md"]}, "a.md docs/b.md docs/sub/c.md"),
        ({"include": ["**/*.md"]}, "a.md docs/b.md docs/sub/c.md"),
        ({"include": ["docs/*.md"]}, "docs/b.md"),
        ({"include": ["docs"]}, "docs/b.md docs/sub/c.md docs/sub/d.txt"),
        ({"include": ["docs/", "!*.txt"]}, "docs/b.md docs/sub/c.md"),
        ({"include": ["*.txt", "docs/sub/"]}, "a.txt docs/sub/c.md docs/sub/d.txt"),
        ({"include": []}, ""),
        ({"exclude": ["*.md"]}, "a.txt docs/sub/d.txt"),
        ({"exclude": ["docs/sub/"]}, "a.md a.txt docs/b.md"),
        ({"exclude": ["**/sub/**"]}, "a.md a.txt docs/b.md"),
        ({"exclude": ["*", "!*/", "!*.txt"]}, "a.txt docs/sub/d.txt"),
        ({"include": ["*.md"], "exclude": ["a.*"]}, "docs/b.md docs/sub/c.md"),
    ],
)
def test_include_and_exclude_select_files(
    world: FolderWorld, options: dict[str, object], expected: str
) -> None:
    plant(world, "a.md", "a.txt", "docs/b.md", "docs/sub/c.md", "docs/sub/d.txt")
    assert selected(world, **options) == set(expected.split())


def test_hidden_files_are_omitted_unless_configured(world: FolderWorld) -> None:
    plant(world, "a.md", ".b.md", ".c/d.md", ".git/config.md", "e/.git")
    assert selected(world) == {"a.md"}
    assert selected(world, hidden=True) == {"a.md", ".b.md", ".c/d.md"}
    assert selected(world, exclude=["!.c"]) == {"a.md", ".c/d.md"}


LEFT_BY_PROGRAMS = """
a.md~ .a.md.swp .a.md.swo a.swp .#a.md #a.md# ~$a.docx .~lock.a.odt# a.md.tmp a.md___jb_tmp___
a.pdf.part a.pdf.crdownload .goutputstream-X1 .DS_Store Thumbs.db .nfs000001
"""


def test_temporary_files_of_programs_are_skipped(world: FolderWorld) -> None:
    names = LEFT_BY_PROGRAMS.split()
    plant(world, "a.md", *names)
    assert selected(world, hidden=True) == {"a.md"}
    for name in names:
        assert selected(world, hidden=True, exclude=[f"!{name}"]) == {"a.md", name}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({".gitignore": "*.log\n/top\n"}, "a.md sub/a.md sub/top keep/a.md"),
        ({".gitignore": "*.md\n!keep/*.md\n"}, "a.log top sub/a.log sub/top keep/a.md"),
        ({".gitignore": "sub/\n", "sub/.gitignore": "!a.md\n"}, "a.md a.log top keep/a.md"),
        ({"sub/.gitignore": "*.log\n"}, "a.md a.log top sub/a.md sub/top keep/a.md"),
        (
            {".gitignore": "*.log\n", "sub/.gitignore": "!*.log\n"},
            "a.md top sub/a.md sub/a.log sub/top keep/a.md",
        ),
        ({".gitignore": "*\n!*/\n!*.md\n"}, "a.md sub/a.md keep/a.md"),
        ({".ingestorignore": "sub\ntop\n"}, "a.md a.log keep/a.md"),
        ({".gitignore": "top\n*.log\n", ".ingestorignore": "!/top\n"}, "a.md top sub/a.md keep/a.md"),
        ({".gitignore": "[broken\n\\\n"}, "a.md a.log top sub/a.md sub/a.log sub/top keep/a.md"),
    ],
)
def test_ignore_files_hide_what_they_match(world: FolderWorld, files: dict[str, str], expected: str) -> None:
    plant(world, "a.md", "a.log", "top", "sub/a.md", "sub/a.log", "sub/top", "keep/a.md")
    for key, text in files.items():
        world.put(key, text.encode())
    assert world.keys() == set(expected.split())
    assert selected(world, ignore_files=[]) >= {"a.md", "a.log", "sub/a.md", "sub/top"}
    everything = world.keys()
    for under in ("sub", "sub/a.log", "keep"):
        assert world.keys(under) == {key for key in everything if f"{key}/".startswith(f"{under}/")}


def test_ignore_file_may_hold_binary_bytes_and_exclude_overrules_it(world: FolderWorld) -> None:
    root = os.fsencode(world.root)
    for name in (b"caf\xe9.md", b"a.md"):
        Path(os.fsdecode(root + b"/" + name)).touch()
    world.put(".gitignore", b"caf\xe9*\n")
    assert world.keys() == {"a.md"}
    world.put(".gitignore", b"*.md\n")
    assert selected(world, exclude=["!a.md"]) == {"a.md"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#" * 300_000, "the ignore file .gitignore has more than 262,144 bytes"),
        (None, "the ignore file .gitignore has more than 262,144 bytes"),
        (b"x\n" * 5_001, "the ignore file .gitignore has more than 5,000 lines"),
        (b"x" * 1_001, "the ignore file .gitignore line 1 has more than 1,000 characters"),
    ],
)
def test_files_beside_an_ignore_file_too_large_are_unknown(
    world: FolderWorld, content: bytes | None, reason: str
) -> None:
    plant(world, "a.md", "sub/b.md")
    world.put("sub/.gitignore", content or b"")
    if content is None:
        os.truncate(world.root / "sub/.gitignore", 10**12)
    found, error = broken_off(world.connector)
    assert reason in str(error)
    assert (found.keys(), error.unknown) == ({"a.md"}, ("sub",))


def test_ignore_files_below_each_other_have_a_limit_together(world: FolderWorld) -> None:
    for depth in range(1, 5):
        world.put("/".join(["d"] * depth) + "/.gitignore", b"x\n" * 3_000)
    plant(world, "d/d/d/a.md", "d/d/d/d/b.md")
    with pytest.raises(PartialScan, match="have more than 10,000 patterns") as raised:
        list(world.connector.scan())
    assert raised.value.unknown == ("d/d/d/d",)


def test_link_to_an_ignore_file_is_not_followed(
    world: FolderWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "patterns").write_text("*.md\n")
    plant(world, "a.md")
    (world.root / ".gitignore").symlink_to(tmp_path / "patterns")
    assert selected(world) == {"a.md"}
    assert f"{world.root}/.gitignore is a link" in caplog.text


# -- symbolic links


def linked(tmp_path: Path, world: FolderWorld) -> None:
    plant(world, "docs/a.md", "docs/sub/b.md")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    for name, target in {
        "file.md": "docs/a.md",
        "absolute.md": f"{world.root}/docs/a.md",
        "chain.md": "file.md",
        "folder": "docs/sub",
        "out.md": "../outside/secret.md",
        "out": str(outside),
        "broken.md": "nowhere.md",
        "self.md": "self.md",
        "loop": ".",
        "docs/sub/up": "../..",
        "docs/sub/sideways": "../../folder",
        "climb.md": "../root/docs/a.md",
    }.items():
        (world.root / name).symlink_to(target)  # fmt: skip


REAL = {"docs/a.md", "docs/sub/b.md"}
INSIDE = REAL | {"file.md", "absolute.md", "chain.md", "climb.md", "folder/b.md"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("skip", REAL), ("inside", INSIDE), ("follow", INSIDE | {"out.md", "out/secret.md"})],
)
def test_symbolic_links_follow_their_policy(
    tmp_path: Path, world: FolderWorld, policy: str, expected: set[str]
) -> None:
    linked(tmp_path, world)
    linking = FolderWorld(world.root, symlinks=policy)
    items = listed(linking.connector)
    assert items.keys() == expected
    for key, item in items.items():
        assert fetched(linking.connector, item).data == (world.root / key).read_bytes()
        assert linking.keys(key) == {key}


def test_files_omitted_are_logged_once_and_ten_of_a_reason_at_level_info(
    tmp_path: Path, world: FolderWorld, caplog: pytest.LogCaptureFixture
) -> None:
    linked(tmp_path, world)
    for number in range(12):
        (world.root / f"gone-{number:02}.md").symlink_to("nowhere")
    os.mkfifo(world.root / "fifo.md")
    with caplog.at_level(logging.DEBUG, "ingestor"):
        world.keys()
        world.keys()
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    nowhere = [message for message in messages if "leads nowhere" in message]
    assert len(nowhere) == 10
    assert [message for message in messages if "-v logs others" in message] == nowhere[-1:]
    names = [record.getMessage().rsplit("/", 1)[1] for record in caplog.records]
    others = sorted(name for name in names if not name.startswith("gone"))
    assert others == ["broken.md", "fifo.md", "out", "out.md", "self.md"]


def test_links_to_each_other_do_not_multiply(world: FolderWorld) -> None:
    packages = [f"p{n}" for n in range(12)]
    for package in packages:
        plant(world, f"{package}/a.md")
        for other in packages:
            (world.root / package / f"to-{other}").symlink_to(f"../{other}")
    plant(world, "..2026_11_21/a.md")  # a mount of Kubernetes
    (world.root / "..data").symlink_to("..2026_11_21")
    (world.root / "a.md").symlink_to("..data/a.md")
    assert len(world.keys()) == 12 + 12 * 11 + 1


@pytest.mark.parametrize("policy", ["skip", "inside"])
@pytest.mark.parametrize("swapped", ["docs", "docs/a.md"])
def test_link_swapped_in_after_the_listing_leads_nowhere(
    tmp_path: Path, world: FolderWorld, policy: str, swapped: str
) -> None:
    plant(world, "docs/a.md")
    item = listed(world.connector)["docs/a.md"]
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.md").write_text("secret")
    (world.root / swapped).rename(tmp_path / "aside")
    (world.root / swapped).symlink_to(tmp_path / "outside" / ("" if swapped == "docs" else "a.md"))
    with pytest.raises(Stale):
        FolderWorld(world.root, symlinks=policy).connector.fetch(item)
