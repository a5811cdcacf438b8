"""Names follow roles, whatever was renamed before, and whoever took a name meanwhile."""

from dataclasses import dataclass, field

import pytest

from ingestor.core.entries import Edition, Role
from ingestor.engine.edition_store import rename_to_roles
from ingestor.model import CollectionName
from ingestor.ports import Transient

C = CollectionName("docs")


@dataclass
class Register:
    """``squatters``: how often a client takes a name again as soon as it is free."""

    by_uuid: dict[str, str]
    squatters: int = 0
    ousted: list[str] = field(default_factory=list)

    def names(self) -> dict[str, str]:
        return dict(self.by_uuid)

    def rename(self, uuid: str, name: str) -> bool:
        if self.squatters and name == C:
            self.squatters -= 1
            self.by_uuid[f"squatter {self.squatters}"] = name
        if name in self.by_uuid.values():
            return False
        self.by_uuid[uuid] = name
        return True

    def evict(self, name: str) -> str:
        uuid = next(uuid for uuid, there in self.by_uuid.items() if there == name)
        del self.by_uuid[uuid]
        self.ousted.append(uuid)
        return "deleted"


def edition(name: str, role: Role, uuid: str | None) -> Edition:
    return Edition(CollectionName(name), C, role, uuids=(uuid,))


SWAPPED = [edition("docs", "previous", "old"), edition("docs--2", "live", "new")]
AS_WISHED = {"old": "docs--1", "new": "docs"}


@pytest.mark.parametrize(
    ("before", "renamed"),
    [
        ({"old": "docs", "new": "docs--2"}, 2),
        ({"old": "docs--1", "new": "docs--2"}, 1),  # it died between the two
        (AS_WISHED, 0),
    ],
)
def test_interrupted_swap_is_completed(before: dict[str, str], renamed: int) -> None:
    register = Register(dict(before))
    assert rename_to_roles(register, SWAPPED) == renamed
    assert register.by_uuid == AS_WISHED


def test_rollback_of_a_rollback_restores_the_new_collection() -> None:
    register = Register(dict(AS_WISHED))
    rename_to_roles(register, [edition("docs", "live", "old"), edition("docs--2", "previous", "new")])
    assert register.by_uuid == {"old": "docs", "new": "docs--2"}


def test_foreign_collection_under_a_freed_name_is_evicted() -> None:
    register = Register({"old": "docs", "new": "docs--2"}, squatters=2)
    rename_to_roles(register, SWAPPED)
    assert register.by_uuid == AS_WISHED
    assert len(register.ousted) == 2


def test_client_that_keeps_taking_a_name_is_reported() -> None:
    with pytest.raises(Transient, match="a client keeps creating"):
        rename_to_roles(Register({"old": "docs", "new": "docs--2"}, squatters=99), SWAPPED)


def test_missing_collection_is_not_renamed() -> None:
    register = Register({"someone's": "docs"})
    assert (
        rename_to_roles(register, [edition("docs", "live", None), edition("docs--2", "staging", "gone")]) == 0
    )
    assert register.by_uuid == {"someone's": "docs"}
