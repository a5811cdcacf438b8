"""The laws that every history is held to, by name: a broken program must be found out by one of them."""


class LawBroken(BaseException):
    """``law`` names it; broken variants in test_crashes.py say which one finds them out.

    No Exception, so the program cannot take it for an error of a port.
    """

    def __init__(self, law: str, found: object) -> None:
        super().__init__(f"{law}: {found}")
        self.law = law


EXACT = "at rest the index equals that of a run from nothing"
REST = "the program comes to rest"
SUPERSET = "the journal knows every record in the index"
LISTED = "a document that was listed is wanted until a listing lacks it"
THERE = "what is there at a listing does not count as vanished"
READABLE = "only unreadable content is withdrawn"
UNWANTED = "nothing is written of a document that was removed, or whose source is paused"
BLAMED = "a refused version keeps no other version of its document from being tried"
ASKED = "a person is asked before many documents leave the index"
ONE_EMBEDDER = "readers see vectors of one embedder"
ONE_RECIPE = "readers see records of one recipe where collections are swapped"
ONE_LIVE = "one edition serves readers, and each collection is of one edition"
KEPT = "documents of a source that left the config stay until a person agrees"
COMPLETE = "a collection that takes another's place has all its documents"
MOVED = "a vanished document stays while a new one of the same content waits to be read"
CLEAN = "at rest nothing has failed, is in doubt or was left behind"
STATES = "a document changes its state only as core/document_state.py says, in SQL as in Python"
LEXICAL = "at rest the lexical index holds what Chroma holds"
KNOWN_WORDS = "the journal knows every record in the lexical index"
IN_PLACE = "a record is in the shard that the hash of its document says, and in no other"
ONE_SET = "a listing of Chroma shows readers the shards of one edition"
PHASES = "a document in flight has writes in the phases that say so, and in no other"
HELD = "a source is held only for what befell itself, and what readers see of it"
PROMPT = "a rebuild delays a removal or an edit at most twofold"
OWN = "a record is in the collection that its source feeds, and in no other"
APPROVED = "a change that a person must approve, or undid, is not carried out by itself"
STOOD = "a document that stands still is in every answer"
ONE_STATE = "an answer shows one state of a collection, in words and in vectors"
OTHERS = "a document that changes while it is read keeps no other one waiting"
AT_ONCE = "a document that was read has records, though the statistic is not settled"
FOUND = "at rest search finds what was written beside a record that was replaced"
SETTINGS = "at rest a collection has the settings that a run from nothing gives it"
BEGUN = "a document that is due is begun soon, whatever another edition waits for"
GROWS = "a document that only grows is read up to a line at least every 30 s"
STAMPED = "a collection has a generation that the journal expects, unless one was restored"
ALIVE = "no error of a port ends the program"


def hold(law: str, found: object) -> None:
    """``found``: what breaks the law; nothing does if it is empty."""
    if found:
        raise LawBroken(law, found)
