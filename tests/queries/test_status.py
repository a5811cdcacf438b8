"""What ``status`` says of a collection that is being built."""

from pathlib import Path

from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Receipt
from ingestor.model import CollectionName, Item, SourceName
from ingestor.queries.status import CollectionStatus, with_edition
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.state.journals import of_collection

SOURCE = SourceName("s")


def test_new_collection_is_done_when_all_documents_are_read(tmp_path: Path) -> None:
    """Documents that no parser reads are done: the switch does not wait for them."""
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    new = Editions(journal).build(CollectionName("docs"), "{}", 0.0)
    keys = ("read.md", "damaged.pdf", "picture.xyz", "next.md")
    journal.observe(SOURCE, new.name, Changes(tuple(Item(key, "1", key) for key in keys)), 0.0)
    unread = Failure("no text", 1, NEVER, quarantined=True)
    endings = (("text", None), ("", unread), (NO_PARSER, unread))
    for entry, (parser, failure) in zip(of_collection(journal, new.name), endings, strict=False):
        journal.settle([Receipt(entry.row, "1", "r", "f", "d", parser, failure=failure)], ["r"])
    assert with_edition(CollectionStatus(), journal, new, grace=0.0).built == (3, 4)
    journal.close()
