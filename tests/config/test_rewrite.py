"""A new chunking goes into the text of a config, and all else of the text stays."""

from textwrap import dedent

import pytest

from ingestor.config.rewrite import TOP, NotRewritable, places, with_chunking

BLOCK = "chunking:\n  strategy: fixed\n  size: 80\n"
CONFIG = dedent(
    """\
    # ours
    state: ./s    # here

    chunking:            # how texts are cut
      strategy: recursive
      size: 200          # tokens

    # where documents come from
    sources:
      - name: a
        path: ./a
        chunking: {strategy: sentence}
        collection: docs
      # mails
      - name: b
        path: ./b
        collection: docs
    """
)


def test_rewritten_block_replaces_the_old_one() -> None:
    assert places(CONFIG, ["a", "b"]) == ["a", TOP]
    assert with_chunking(CONFIG, {"a": BLOCK, TOP: BLOCK}, "measured") == dedent(
        """\
        # ours
        state: ./s    # here

        # measured
        chunking:
          strategy: fixed
          size: 80

        # where documents come from
        sources:
          - name: a
            path: ./a
            # measured
            chunking:
              strategy: fixed
              size: 80
            collection: docs
          # mails
          - name: b
            path: ./b
            collection: docs
        """
    )


def test_rewrite_keeps_top_level_for_other_collections() -> None:
    assert places(CONFIG + "  - name: c\n    collection: other\n", ["b"]) == ["b"]
    assert with_chunking(CONFIG, {"b": BLOCK}, "measured").endswith(
        "    collection: docs\n    # measured\n    chunking:\n      strategy: fixed\n      size: 80\n"
    )


def test_rewrite_without_chunking_adds_block_above_sources() -> None:
    sources = "# from where\nsources:\n- name: a\n  settings: |\n    x\n\n  kind: folder"
    text = f"state: s\n{sources}"
    assert with_chunking(text, {TOP: BLOCK}, "measured") == f"state: s\n# measured\n{BLOCK}{sources}\n"
    assert with_chunking(text, {"a": BLOCK}, "measured").endswith(
        "kind: folder\n  # measured\n  chunking:\n    strategy: fixed\n    size: 80\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: [{name: a}]", "braces"),
        ("sources:\n  - {name: a, chunking: {}}", "braces"),
        ("sources:\n  - name: ${NAME}", "'a' is not written in the file"),
        ("- a", "no keys"),
    ],
)
def test_rewrite_of_braces_is_refused(text: str, message: str) -> None:
    with pytest.raises(NotRewritable, match=message):
        with_chunking(text, dict.fromkeys(places(text, ["a"]) and ["a"], BLOCK), "measured")
