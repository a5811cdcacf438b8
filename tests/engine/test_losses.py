"""When a person is asked about what vanished, over a real journal."""

import pytest

from ingestor.core.decisions import Changes
from ingestor.core.entries import Feed
from ingestor.model import CollectionName
from ingestor.state.editions import Editions
from tests.engine.worlds import TREE, Listed
from tests.state.journals import of_collection

LOST = "30 of 40 documents vanished within a day"


def hold(listed: Listed) -> None:
    """Lose most documents in one listing."""
    listed.tree.lose("a/", "b/")
    assert listed.list_again("")


def held(listed: Listed, *hints: str) -> str:
    return listed.list_again(*hints) or ""


@pytest.mark.parametrize("whole", [False, True])
def test_losses_of_several_listings_need_approval_together(listed: Listed, whole: bool) -> None:
    def list_again(folder: str) -> str | None:
        return listed.list_again(after=400) if whole else listed.list_again(folder)

    listed.tree.lose("a/")
    assert list_again("a") is None  # half of 40
    listed.tree.lose("b/")
    assert (list_again("b") or "").startswith(LOST)
    assert listed.left() == 20  # the second folder is known still
    listed.tree.lose("e/")
    assert (list_again("e") or "").startswith("32 of 40")  # all is listed, to see whether it is back
    assert listed.accept() is None
    assert listed.left() == 8
    listed.tree.lose("c/1")
    assert list_again("c") is None, "counted anew from what was accepted"


def test_documents_that_come_back_lift_the_hold_at_once(listed: Listed) -> None:
    before = listed.tree.keys
    hold(listed)
    listed.tree.keys = before
    assert listed.list_again("b") is None
    assert listed.left() == 40


def test_accepted_loss_is_listed_at_once_after_a_failed_listing(listed: Listed) -> None:
    listed.tree.fails = True
    listed.list_again("a")
    listed.tree.fails = False
    listed.tree.lose("a/", "b/")
    assert listed.list_again(after=400)
    assert listed.accept() is None
    assert listed.left() == 10


def test_acceptance_does_not_count_for_a_listing_that_began_before(listed: Listed) -> None:
    """A person brings the disk back and accepts, while a listing of the empty folder is under way."""
    keys, listed.tree.root, listed.tree.keys = listed.tree.keys, "empty", set()
    assert listed.list_again("")
    listed.begin("")
    listed.rows.accept(TREE.source)
    listed.tree.fails = True  # the next listing
    listed.list_again()
    assert listed.left() == 40
    listed.tree.fails, listed.tree.root, listed.tree.keys = False, "disk", keys
    assert listed.list_again(after=400) is None
    assert listed.left() == 40


def test_acceptance_does_not_count_for_another_disk(listed: Listed) -> None:
    """The loss is accepted, and before it is listed again the disk is taken away."""
    hold(listed)
    listed.rows.accept(TREE.source)
    keys, listed.tree.root, listed.tree.keys = listed.tree.keys, "empty", set()
    assert held(listed, "").startswith("40 of 40 documents vanished, and another file system")
    listed.tree.root, listed.tree.keys = "disk", keys
    assert listed.left() == 40
    assert held(listed, "").startswith("30 of 40")
    assert listed.accept() is None
    assert listed.left() == 10


def test_losses_add_up_for_longer_than_a_day_unless_the_source_was_at_rest(listed: Listed) -> None:
    listed.tree.lose("a/")
    assert listed.list_again(after=400) is None
    listed.rows.rest([TREE.source], listed.now)
    listed.tree.lose("b/")
    assert (listed.list_again(after=86_400) or "").startswith(LOST)


def test_small_losses_at_rest_need_no_approval(listed: Listed) -> None:
    for folder in "abc":
        listed.tree.lose(f"{folder}/")
        assert (listed.list_again(folder), listed.list_again(after=400)) == (None, None)
        listed.now += 86_400
        listed.rows.rest([TREE.source], listed.now)
    assert listed.left() == 5


def test_losses_of_partial_listings_are_remembered_over_a_restart(listed: Listed) -> None:
    listed.tree.lose("a/")
    listed.list_again("a")
    listed.tree.lose("b/")
    listed.restart()
    assert held(listed).startswith("30 of 40")


def test_documents_that_appeared_since_are_set_off(listed: Listed) -> None:
    listed.tree.keys |= {f"new/{n}" for n in range(30)}
    assert listed.list_again("new") is None
    for folder in "ab":
        listed.tree.lose(f"{folder}/")
        assert listed.list_again(folder) is None


@pytest.mark.parametrize("max_loss", [0.5, 1.0])
def test_other_file_system_with_as_many_files_needs_approval(listed: Listed, max_loss: float) -> None:
    listed.restart(max_loss)
    listed.tree.root = "other disk"
    listed.tree.keys = {f"x/{n}" for n in range(50)}
    for _ in range(2):  # a hint of a part is answered by a whole listing
        reason = "40 of 40 documents vanished, and another file system is mounted there"
        assert held(listed, "x").startswith(reason)
    assert listed.left() == 40
    assert listed.accept() is None
    assert listed.left() == 50
    listed.tree.lose("x/1")
    assert listed.list_again("x") is None


def test_disk_with_all_files_may_replace_another(listed: Listed) -> None:
    listed.tree.root = "other disk"
    listed.tree.keys.add("f/new")
    assert listed.list_again("f") is None
    listed.tree.lose("e/1")
    assert listed.list_again("e") is None  # it is known by now
    assert listed.left() == 40


def building(listed: Listed, known: str | None = None) -> Feed:
    """Feed another edition, too, whose documents were listed under ``known``."""
    editions, docs = Editions(listed.journal), CollectionName("docs")
    editions.choose(TREE.edition, docs, {})
    new = Feed(TREE.source, editions.build(docs, {}, 0.0).name)
    if known is not None:
        listed.journal.observe(*new, Changes(tuple(listed.tree.scan_under(known))), 0.0)
    listed.configure(listed.source(), listed.source(edition=new.edition))
    return new


def test_second_edition_during_its_first_listing_loses_nothing(listed: Listed) -> None:
    """What the source had is counted in the edition that readers see."""
    new = building(listed, "e")
    listed.tree.lose("e/1")
    assert listed.list_again() is None
    assert len(listed.versions(new)) == 39


def test_source_is_listed_once_for_all_its_editions(listed: Listed) -> None:
    before, new = listed.tree.listings, building(listed)
    assert listed.list_again() is None
    assert listed.tree.listings == before + 1
    assert all(listed.scanner.has_listed(feed.edition) for feed in (TREE, new))
    ids = [
        {entry.key: entry.document_id for entry in of_collection(listed.journal, feed.edition)}
        for feed in (TREE, new)
    ]
    assert ids[0] == ids[1]


def test_hold_keeps_the_documents_of_all_editions(listed: Listed) -> None:
    new = building(listed)
    listed.list_again()
    hold(listed)
    assert len(listed.versions(new)) == 40
    listed.accept()
    assert len(listed.versions(new)) == 10
