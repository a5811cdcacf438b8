import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ingestor.connectors.shared.gitignore import _compile, rules, rules_of_file
from tests.bounded import printed
from tests.examples import examples


def ignored(patterns: list[str], path: str) -> bool:
    """Level by level, as a walk does it. A trailing slash means a directory."""
    compiled = rules(patterns)
    names = path.rstrip("/").split("/")
    for depth, name in enumerate(names, 1):
        directory = depth < len(names) or path.endswith("/")
        if compiled.verdict("/".join(names[:depth]), name, directory=directory):
            return True
    return False


PATTERNS = [  # separated by |
    ("*.md", "a.md", True), ("*.md", "deep/in/a.md", True), ("*.md", "two\nlines/a\nb.md", True),
    ("*.md", "a.mdx", False), ("build/", "build", False), ("build/", "build/", True),
    ("build/", "src/build/x", True), ("/build", "src/build/x", False), ("docs/*.md", "docs/a.md", True),
    ("docs/*.md", "docs/sub/a.md", False), ("docs/*.md", "x/docs/a.md", False),
    ("docs/**/*.md", "docs/sub/deep/a.md", True), ("docs/**/*.md", "docs/a.md", True),
    ("**/logs", "a/b/logs/x", True), ("**/logs", "logs", True), ("logs/**", "logs/", False),
    ("logs/**", "logs/a/b", True), ("/**", "a", True), ("a**b", "axxb", True), ("x/a**b", "x/a/b", False),
    ("*|!*/|!*.md", "a/b/c.md", False), ("*|!*/|!*.md", "a/b/c.txt", True),
    ("foo/**|!foo/keep.md", "foo/keep.md", False), ("foo/|!foo/keep.md", "foo/keep.md", True),
    ("*.md|!keep.md|keep.md", "keep.md", True), ("/*|!/foo", "foo/bar", False), ("a?c", "abc", True),
    ("a?c", "a/c", False), ("[a-c]x", "bx", True), ("[!a-c]x", "bx", False), ("[^a-c]x", "zx", True),
    ("[]]", "]", True), ("[a]]", "a]", True), ("[c-a]", "b", False), ("[[:digit:]x]y", "7y", True),
    ("[[:nonsense:]]y", "ny", False), ("[unclosed", "[unclosed", False), ("\\[x]", "[x]", True),
    ("a[/]b", "a/b", False), ("\\!important", "!important", True), ("\\#1", "#1", True),
    ("#1", "#1", False), ("a.md  ", "a.md", True), ("a\\ ", "a ", True), ("a\\\\ ", "a\\", True),
    (" a", " a", True), ("|  |/|!", "a", False), ("trailing\\", "trailing\\", False),
    ("Ü*", "Übung.md", True), (".*", ".git/", True),
]  # fmt: skip


@pytest.mark.parametrize(("patterns", "path", "expected"), PATTERNS)
def test_pattern_ignores_as_git_does(patterns: str, path: str, expected: bool) -> None:
    assert ignored(patterns.split("|"), path) is expected


def test_file_may_have_any_line_ends_and_a_byte_order_mark() -> None:
    compiled = rules_of_file("\ufeff*.log\r\n# comment\r\n!keep.log")
    names = {"a.log": True, "keep.log": False, "a.md": None}
    assert {name: compiled.verdict(name, name, directory=False) for name in names} == names
    for text, reason in (
        ("a\n" * 5001, "has more than 5,000 lines"),
        ("a\n" + "b" * 1001, "line 2 has more than 1,000 characters"),
    ):
        with pytest.raises(ValueError, match=reason):
            rules_of_file(text)


# Git 2.39 takes the ** of a**/b, and an escaped slash, otherwise than gitignore(5) says: left out here.
_ATOMS = ["*", "?", "a", "b", "ab", ".md", " ", "\\ ", "!", "\\!", "#", "-", "[ab]", "[!a]", "[^b]", "[a-c]"]
_ATOMS += ["[]-]", "[\\]x]", "[[:alpha:]]", "[", "]"]
_PART = st.just("**") | st.lists(st.sampled_from(_ATOMS), min_size=1, max_size=3).map("".join).filter(
    lambda part: "**" not in part
)
_PATTERN = st.tuples(
    st.sampled_from(["", "", "!", "/", "!/"]),
    st.lists(_PART, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
).map(lambda parts: parts[0] + "/".join(parts[1]) + parts[2])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    for above in ("", "a/", "ab/", "a/b/", "[x]/", "a\nb/"):
        (root / above).mkdir(exist_ok=True)
        for name in ("a.md", "b c", "-", "!n", "#h", "a\\b", "b ", "c"):
            (root / above / name).touch()
    return root


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PATTERN, min_size=1, max_size=4))
def test_patterns_ignore_the_files_that_git_ignores(repository: Path, patterns: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    paths = _paths(repository)
    asked = "\0".join(path.rstrip("/") for path in paths)
    command = ["git", "-C", str(repository), "check-ignore", "-z", "--stdin", "--no-index"]
    alone = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    answer = subprocess.run(command, input=asked, env=alone, capture_output=True, text=True).stdout
    assert {path.rstrip("/") for path in paths if ignored(patterns, path)} == set(answer.split("\0")[:-1])


_WORST = ["*a" * 10 + "*b", "**/*a*a*a*b/" * 10 + "**/b", "*aaaaaaab" * 100, "[" * 999, "a" + " " * 990 + "b"]
_WORST += ["/" + "*a*/" * 200 + "b", "[[:a:" * 190, "\\" * 999, "[!b]*" * 190 + "b", "?*" * 400 + "b"]


@pytest.mark.slow
def test_patterns_match_fast() -> None:
    program = """
        import sys
        from ingestor.connectors.shared.gitignore import rules, rules_of_file
        patterns, name = sys.argv[1:], "a" * 200
        for compiled in (rules(patterns), rules_of_file("\\n".join(patterns * 100))):
            print(compiled.verdict(name, name, directory=False))
            print(compiled.verdict("/".join([name] * 20), name, directory=False))
        """
    assert printed(program, *_WORST).split() == ["None"] * 4


def test_long_file_is_compiled_once_and_its_lines_when_they_are_needed() -> None:
    text = "\n".join(f"*a*{number}*b" for number in range(1500))
    _compile.cache_clear()
    before = _compile.cache_info().misses
    compiled = rules_of_file(text)
    assert compiled.verdict("c", "c", directory=False) is None
    assert _compile.cache_info().misses == before
    assert compiled.verdict("a1499b", "a1499b", directory=False)
    assert _compile.cache_info().misses == before + 1
    assert rules_of_file(f"{text}") is compiled


@examples(300)
@given(
    st.lists(_PATTERN | st.text("*?a/b[!]", max_size=12), min_size=1, max_size=3),
    st.text("ab/.", max_size=12),
)
def test_matching_without_backtracking_finds_what_backtracking_does(patterns: list[str], path: str) -> None:
    for line in rules(patterns).lines:
        every_way = line.pattern.pattern.replace("(?>", "(?:").replace("*+/", "*/")
        backtracking = re.compile(every_way, line.pattern.flags)
        assert bool(line.pattern.fullmatch(path)) == bool(backtracking.fullmatch(path))


def _paths(root: Path) -> list[str]:
    found = [path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts]
    return [f"{path.relative_to(root)}{'/' * path.is_dir()}" for path in found]
