"""The changepoint strategy against the laws of all chunkers, and its options."""

from dataclasses import replace

import numpy as np
import pytest

from ingestor.chunkers.changepoint import PLUGIN, Changepoint, ChangepointOptions, build
from ingestor.chunkers.parts import prices, small_pieces, starts_section
from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from ingestor.model import Block, Chunking, Document
from ingestor.ports import Collective
from ingestor.segmentation import changepoint as changepoints
from ingestor.segmentation.changepoint import LEVELS, WHOLE, Solutions
from ingestor.segmentation.fixed_point import Integers
from ingestor.segmentation.pooling import mix
from tests.chunkers.collective import MADE_AT_ONCE, NOT_IN_VAIN, keep
from tests.chunkers.laws import TOKENS, Noting, essay, laws, parsed

EMBED = HashingEmbedder(HashingOptions(dimensions=256)).embed


# The penalty is the whole collection's.
TestChangepoint = laws(PLUGIN, {"target": 60}, local=False)
TestFixedPenalty = laws(PLUGIN, {"target": 60, "penalty": 0.5, "vectors": "encoded"})


@pytest.mark.parametrize("more", [{}, {"vectors": "encoded"}])
def test_collection_is_always_as_if_made_at_once(more: dict[str, str]) -> None:
    keep(PLUGIN, {"target": 30, **more})


def test_intervals_too_wide_by_one_level_are_detected() -> None:
    with pytest.raises(AssertionError, match=MADE_AT_ONCE):
        keep(PLUGIN, {"target": 30, "vectors": "encoded"}, widened=1)


def divided(text: str) -> Document:
    """A manual: its paragraphs begin a section, or are prose, a list, a table or code."""
    parts = text.split("\n\n")
    shapes = [
        "## Part {n}\n\n{part}", "{part}", "- {part}\n- {part}", "{table}", "{part}", "```\n{part}\n```",
    ]  # fmt: skip
    made = (
        shapes[n % 6].format(n=n, part=part, table=table(part))
        for n, part in enumerate(parts)
        if part.strip()
    )
    return parsed("\n\n".join(made))


def table(part: str) -> str:
    rows = [f"| {number} | {' '.join(line.split())} |" for number, line in enumerate(part.split(". "))]
    return "\n".join(["| number | line |", "|---|---|", *rows])


def test_collection_of_manuals_is_always_as_if_made_at_once() -> None:
    keep(PLUGIN, {"target": 30}, read=divided)


def test_intervals_ignoring_weights_of_cuts_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval is then that of the same document cut at equal prices."""
    equal: list[Solutions] = []
    solve, interval = changepoints.solve, changepoints.interval

    def solve_twice(costs: Integers, prices: Integers, weights: Integers) -> Solutions:
        equal[:] = [solve(costs, prices)]
        return solve(costs, prices, weights)

    monkeypatch.setattr(changepoints, "solve", solve_twice)
    monkeypatch.setattr(changepoints, "interval", lambda _, at: interval(equal[0], at))
    with pytest.raises(AssertionError, match=f"{MADE_AT_ONCE}|{NOT_IN_VAIN}"):
        keep(PLUGIN, {"target": 30, "vectors": "encoded"}, broken=True, read=divided)


def changepoint(**options: object) -> Changepoint:
    return build(ChangepointOptions.model_validate(options), TOKENS)


def sizes(made: Chunking) -> list[int]:
    return TOKENS.counts([chunk.text for chunk in made.chunks])


@pytest.mark.parametrize(("target", "scope"), [(25, "collection"), (125, "document")])
def test_mean_chunk_has_the_target_size_and_none_2_5_times_that(target: int, scope: str) -> None:
    found = sizes(changepoint(target=target, scope=scope).chunk(Document(essay(200)), EMBED, None))
    assert 0.85 < sum(found) / len(found) / target < 1.15
    assert max(found) <= target * 5 // 2


def test_higher_price_makes_fewer_chunks_and_no_document_depends_on_others() -> None:
    document, counts = Document(essay(60)), []
    for penalty in (0.05, 0.5, 5):
        chunker = changepoint(penalty=penalty)
        made = chunker.chunk(document, EMBED, None)
        assert not isinstance(chunker, Collective)
        assert (made.sums, made.interval) == (None, None)
        counts.append(len(made.chunks))
    assert counts[0] > counts[1] > counts[2]


def test_whole_collection_decides_the_price() -> None:
    """Beside much text that is cut small, one's own chunks are larger, and the other way about."""
    chunker, document = changepoint(target=60), Document(essay(60))
    alone = chunker.chunk(document, EMBED, None)
    assert alone.sums is not None
    many = np.array([10**6, *[10**6 // 10] * LEVELS])
    few = np.array([10**6, *[10**6 // 1000] * LEVELS])
    assert len(chunker.chunk(document, EMBED, many).chunks) < len(alone.chunks)
    assert len(chunker.chunk(document, EMBED, few).chunks) > len(alone.chunks)


def test_sums_of_chunkers_that_compare_other_pieces_are_kept_apart() -> None:
    several: list[dict[str, object]] = [
        {}, {"drift": 0.1}, {"target": 100}, {"max_tokens": 200}, {"vectors": "encoded"}, {"context": "none"},
    ]  # fmt: skip
    names = [getattr(changepoint(**options), "statistic", None) for options in several]
    assert names[0] == names[1] is not None
    assert len({*names}) == 5


@pytest.mark.parametrize(("drift", "levels"), [(0.01, 1), (0.05, 2), (1, 16)])
def test_drift_widens_the_interval_by_as_many_levels_as_the_price_may_move(drift: float, levels: int) -> None:
    document = Document(essay(9))
    exact = changepoint().chunk(document, EMBED, None).interval
    drifting = changepoint(drift=drift).chunk(document, EMBED, None).interval
    assert exact is not None and drifting is not None
    assert (exact[0] - drifting[0], drifting[1] - exact[1]) == (levels, levels)


def test_changes_of_subject_are_where_it_is_cut() -> None:
    subjects = ["basil needs light", "copper wire carries current", "the committee adjourned again"]
    paragraphs = [f"In case {n}, {subject}, as note {n} says." for subject in subjects for n in range(6)]
    made = changepoint(target=80).chunk(Document("\n\n".join(paragraphs)), EMBED, None)
    for chunk in made.chunks:
        assert sum(subject in chunk.text for subject in subjects) == 1


def test_pooled_vectors_include_neighbours_by_default() -> None:
    document = Document(essay(30))
    mixed = changepoint().chunk(document, EMBED, None).vectors
    plain = changepoint(neighbours=0).chunk(document, EMBED, None).vectors
    assert mixed is not None and plain is not None
    assert np.array_equal(mixed, mix(plain, 0.3))
    assert not np.array_equal(mixed, plain)
    assert changepoint(vectors="encoded").chunk(document, EMBED, None).vectors is None
    assert ChangepointOptions(vectors="encoded").neighbours == 0


def test_title_and_heading_are_pooled_in_unless_context_is_none() -> None:
    text = "# Basil\n\nIt needs light.\n\n# Wire\n\nIt carries current."
    second = text.index("# Wire")
    blocks = (Block("heading", 0, 7, 1, "Basil"), Block("heading", second, second + 6, 1, "Wire"))
    document = Document(text, blocks, title="Notes")
    plain = changepoint(penalty=0.001, neighbours=0, context="none").chunk(document, EMBED, None).vectors
    titled = changepoint(penalty=0.001, neighbours=0).chunk(document, EMBED, None).vectors
    assert plain is not None and titled is not None
    towards = EMBED(["Notes Basil", "Notes Wire"])
    assert (np.einsum("ij,ij->i", titled, towards) > np.einsum("ij,ij->i", plain, towards) + 0.05).all()


def test_new_title_embeds_the_title_alone() -> None:
    embed = Noting(EMBED)
    chunker, document = changepoint(penalty=0.5), Document(essay(100), title="Notes")
    before = chunker.chunk(document, embed, None)
    seen = {*embed.texts}
    after = chunker.chunk(replace(document, title="Letters"), embed, None)
    assert {*embed.texts} - seen == {"Letters"}
    assert after.chunks == before.chunks
    assert before.vectors is not None and after.vectors is not None
    assert (before.vectors != after.vectors).any(axis=1).all()


@pytest.mark.parametrize(("vectors", "in_context"), [("pooled", True), ("encoded", False)])
def test_pieces_of_a_table_are_filled_with_rows_and_embedded_in_full(vectors: str, in_context: bool) -> None:
    lines = "\n".join(f"| Gate {n} | {n * 37} florins a year | paid in {n + 1800} |" for n in range(40))
    table = f"| Gate | Fee | Year |\n|---|---|---|\n{lines}"
    document = replace(parsed(f"# Fees\n\n{essay(8)}\n\n{table}\n\n{essay(2)}"), title="Harbour")
    embed = Noting(EMBED)
    made = changepoint(vectors=vectors).chunk(document, embed, None)
    rows = [text for text in embed.texts if "florins" in text]
    assert all(text.startswith("Harbour\nFees\n") and "| Gate | Fee |" in text for text in rows) == in_context
    assert (max(TOKENS.count(text.rpartition("|---|\n")[2]) for text in rows) > 60) == in_context
    assert all("florins" in text or "Harbour\n" not in text for text in embed.texts)
    assert all(TOKENS.count(chunk.text) <= 312 for chunk in made.chunks)


def test_neighbours_on_another_page_are_not_mixed_in() -> None:
    lines = [f"Line {n} of figures {n * 7}." for n in range(12)]
    text = "\n\n".join(lines)
    starts = [text.index(line) for line in lines]
    blocks = [Block("paragraph", at, at + len(line)) for at, line in zip(starts, lines, strict=True)]
    paged = Document(text, tuple(replace(block, page=n // 6) for n, block in enumerate(blocks)))
    chunker = changepoint(penalty=0.001, target=20)
    first = chunker.chunk(paged, EMBED, None)
    other = replace(paged, text=text.replace("Line 6 of figures 42", "Note 6 on herrings 42"))
    changed = chunker.chunk(other, EMBED, None)
    assert first.vectors is not None and changed.vectors is not None
    pages = [int(chunk.start >= starts[6]) for chunk in first.chunks]
    moved = (first.vectors != changed.vectors).any(axis=1).tolist()
    assert moved[pages.index(1)] and not any(moved[: pages.index(1)])
    whole = Document(text, tuple(blocks))
    bare = chunker.chunk(whole, EMBED, None).vectors
    assert bare is not None and (bare[pages.index(1) - 1] != first.vectors[pages.index(1) - 1]).any()


def test_edit_in_the_middle_embeds_a_few_pieces_and_changes_few_vectors() -> None:
    embed = Noting(EMBED)
    text = essay(120)
    chunker = changepoint(penalty=0.5)
    before = chunker.chunk(Document(text), embed, None)
    seen = {*embed.texts}
    after = chunker.chunk(Document(text.replace("In case 60,", "In the case 60,", 1)), embed, None)
    assert len(seen) > 120
    assert len({*embed.texts} - seen) <= 2
    assert before.vectors is not None and after.vectors is not None
    old = {vector.tobytes() for vector in before.vectors}
    assert sum(vector.tobytes() not in old for vector in after.vectors) <= 8


def test_no_chunk_ends_in_the_midst_of_a_sentence_or_with_a_colon_where_it_fits() -> None:
    listed = "".join(f"- row {n}\n" for n in range(6))
    wrapped = (
        "This sentence is wrapped\nby hand, and\nit is rather long, since it has to go on\nfor a while.\n"
    )
    text = "\n".join(f"{wrapped} So it is for {n}:\n\n{listed}\n" for n in range(12))
    for target in (40, 60, 90):
        for chunk in changepoint(target=target).chunk(Document(text), EMBED, None).chunks:
            assert chunk.text[-1] in ".0123456789", chunk.text[-30:]


def test_sections_and_their_labels_are_where_it_is_cut() -> None:
    body = "It says the same as all others. " * 6
    text = "".join(f".. _label-{n}:\n\nSection {n}\n==========\n\n{body}\n\n" for n in range(10))
    made = changepoint(target=100).chunk(parsed(text, "a.rst"), EMBED, None).chunks
    assert sum(chunk.text.startswith(".. _label") for chunk in made) == len(made) > 3


def test_cuts_cost_the_same_in_texts_with_fewer_than_two_headings() -> None:
    listed = "".join(f"- {essay(2)}\n" for _ in range(9))
    for text in (essay(40), f"# The only heading\n\n{essay(40)}", f"{essay(20)}\n\n{listed}"):
        document = parsed(text)
        spans = small_pieces(document, TOKENS, 50, 200)
        assert set(prices(document, spans, starts_section(document, spans))) == {WHOLE}


SUBJECTS = (
    "basil leaves need light and warm soil all summer.",
    "copper wire carries current from the cellar upstairs.",
)


def test_structure_puts_cuts_before_headings() -> None:
    """Where the subject changes in the middle of sections, meaning alone cuts there."""
    parts = [f"In case {n} {SUBJECTS[n % 2]} " * 2 for n in range(13)]
    text = "".join(f"## Part {n}\n\n{parts[n]}\n\n{parts[n + 1]}\n\n" for n in range(12))
    made = changepoint(target=60).chunk(parsed(text), EMBED, None)
    assert not any("\n## " in chunk.text for chunk in made.chunks)


def test_chunk_takes_nothing_from_another_section() -> None:
    text = "".join(f"## Part {n}\n\n{essay(2)}\n\n" for n in range(4))
    before = changepoint(penalty=0.001, target=60).chunk(parsed(text), EMBED, None)
    changed = text.replace(text[text.index("## Part 3") :], "## Part 3\n\nAll else is new here.\n")
    after = changepoint(penalty=0.001, target=60).chunk(parsed(changed), EMBED, None)
    assert before.vectors is not None and after.vectors is not None
    last = next(at for at, chunk in enumerate(before.chunks) if chunk.text.startswith("## Part 3"))
    assert np.array_equal(before.vectors[:last], after.vectors[:last])
