"""A Chroma server that somebody else runs: its tenant and database, its quotas, and its moods."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from ingestor.chroma.backend import Ownership
from ingestor.chroma.backend import open_collections as opened_backend
from ingestor.chroma.client import Client, Place, Refused, Unanswered, Unreachable, send_patiently
from ingestor.chroma.index import rounds, send_in_halves
from ingestor.chroma.server import ChromaServer
from ingestor.config.quotas import CLOUD, UNBOUNDED, Quotas
from ingestor.config.servers import RemoteChroma
from ingestor.model import RecordId
from ingestor.ports import BadDocument, Later, NeedsHuman
from tests.chroma.laws import Fresh, IndexLaws, contents, many, record
from tests.chroma.opening import opened
from tests.chroma.quota_proxy import AFTER, BEFORE, Cloud, cloud_before
from tests.serving import HOST, shared_server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """Open to everybody, as another's server is behind its gateway."""
    with shared_server(tmp_path_factory.mktemp("chroma")) as started:
        httpx.post(f"http://{HOST}:{started.port}/api/v2/tenants", json={"name": "acme"})
        httpx.post(f"http://{HOST}:{started.port}/api/v2/tenants/acme/databases", json={"name": "prod"})
        yield started


@pytest.fixture
def cloud(running: ChromaServer) -> Iterator[tuple[int, Cloud]]:
    with cloud_before(running.port) as found:
        yield found


def place(quotas: Quotas = CLOUD, patience: float = 5.0, **headers: str) -> Place:
    return Place("acme", "prod", headers, quotas, patience)


@pytest.mark.slow  # TestServed holds the laws by default, and the tests below hold the quotas
class TestWithinQuotas(IndexLaws):
    """The laws hold behind the quotas, and no request breaks one."""

    @pytest.fixture
    def fresh(self, running: ChromaServer) -> Iterator[Fresh]:
        """Texts are kept short before, see pipeline/metadata.py."""
        with (
            cloud_before(running.port, document_bytes=10**8) as (port, seen),
            Client(HOST, port, place=place()) as client,
        ):
            yield lambda: opened(client)
        assert seen.refused == {}
        assert seen.at_once <= 10


def test_collections_are_in_the_tenant_and_database_of_the_config(
    running: ChromaServer, cloud: tuple[int, Cloud]
) -> None:
    port, seen = cloud
    with Client(HOST, port, token="t0ken", place=place(**{"X-Project": "p"})) as client:
        uuid = opened(client).uuid
        assert uuid in client.names()
    assert {"authorization": "Bearer t0ken", "x-project": "p"}.items() <= seen.headers[-1].items()
    with Client(HOST, running.port) as client:
        assert uuid not in client.names()


def test_missing_database_is_reported(running: ChromaServer) -> None:
    nowhere = Place("acme", "nowhere")
    with Client(HOST, running.port, place=nowhere) as client, pytest.raises(NeedsHuman, match="nowhere"):
        opened(client)


def test_limit_of_records_of_a_request_is_queried(cloud: tuple[int, Cloud]) -> None:
    with Client(HOST, cloud[0], place=place(UNBOUNDED)) as client:
        assert client.most_written == 5461
    with Client(HOST, cloud[0], place=place()) as client:
        assert client.most_written == 300
    with Client(HOST, cloud[0]) as client:
        assert client.most_written is None


def test_quotas_are_derived_from_refusals(running: ChromaServer) -> None:
    with (
        cloud_before(running.port, records=70, results=2000) as (port, seen),
        Client(HOST, port, place=place(UNBOUNDED)) as client,
    ):
        index = opened(client)
        index.upsert(many(300))
        assert seen.refused["Number of records"] > 0
        assert contents(index).keys() == {one.id for one in many(300)}
        with pytest.raises(BadDocument, match="Document size"):
            index.upsert([*many(3), record("long", "x" * 20_000)])
        with pytest.raises(NeedsHuman, match=r"Metadata key size.*set `chroma\.quotas`"):
            index.upsert([record("a", **{"k" * 37: 1})])
        index.drop([one.id for one in many(300)])
        assert index.count() == 0
        seen.results = 300
        with pytest.raises(NeedsHuman, match=r"Limit value.*set `chroma\.quotas`"):
            list(index.ids())


def test_more_keys_than_a_request_may_have_come_in_several(cloud: tuple[int, Cloud]) -> None:
    """A record that is written again names the keys that it loses, too."""
    port, seen = cloud
    old, new = ({f"{name}{n}": n for n in range(30)} for name in ("old", "new"))
    with Client(HOST, port, place=place()) as client:
        index = opened(client)
        index.upsert([record("a", **old), record("b", **old), record("c", **old)])
        index.patch([(RecordId("a"), {**new, **dict.fromkeys(old)})])
        index.upsert([record("b", **new, **dict.fromkeys(old))])
        found = {name: meta for name, (_, meta, _) in contents(index).items()}
        assert found == {"a": new, "b": new, "c": old}
    assert seen.refused == {}


def test_rounds_have_every_record_first_and_values_before_removals() -> None:
    rows = [(RecordId("a"), {"x": None, "y": 1, "z": None}), (RecordId("b"), {})]
    assert list(rounds(rows, 2)) == [[("a", {"y": 1, "x": None}), ("b", {})], [("a", {"z": None})]]
    assert list(rounds(rows, None)) == [rows]
    assert list(rounds([], 2)) == [[]]


def test_full_collection_needs_a_person_and_other_errors_are_not_split() -> None:
    asked: list[int] = []

    def refuse(message: str, status: int) -> None:
        def send(rows: object) -> None:
            asked.append(1)
            raise Refused(message, "", status)

        send_in_halves([1, 2, 3, 4], send)

    with pytest.raises(NeedsHuman, match="reached its quota of records"):
        refuse("Quota exceeded: 'Collection size' exceeded quota limit for action 'Upsert'", 422)
    with pytest.raises(Refused):
        refuse("nonsense", 422)
    assert len(asked) == 2
    with pytest.raises(BadDocument):
        refuse("", 413)
    assert len(asked) == 5, "whole, half, one"


@pytest.mark.parametrize("fault", [(429, "0"), (503, "0"), BEFORE, AFTER])
def test_request_that_fails_for_a_moment_is_sent_again(cloud: tuple[int, Cloud], fault: object) -> None:
    port, seen = cloud
    with Client(HOST, port, place=place()) as client:
        index = opened(client)
        seen.faults = [fault, None, fault]  # type: ignore[list-item]
        index.upsert(many(20))
        index.patch([(many(1)[0].id, {"n": 7})])
        index.drop([many(2)[1].id])
        assert (index.count(), index.read([many(1)[0].id])[0].metadata) == (19, {"n": 7})
    assert seen.faults == []


def test_server_asking_for_a_long_wait_is_retried_later(cloud: tuple[int, Cloud]) -> None:
    port, seen = cloud
    with Client(HOST, port, place=place(patience=0.5)) as client:
        index = opened(client)
        seen.faults = [(429, "120")]
        with pytest.raises(Later) as told:
            index.upsert(many(2))
        assert told.value.wait == 120
        index.upsert(many(2))
        assert index.count() == 2


@pytest.mark.parametrize(
    ("error", "patience", "expected"),
    [
        (Refused("busy", "", 429), 9.0, [0.25, 0.5, 1, 2, 4]),
        (Refused("no", "", 400), 20.0, []),
        (Unreachable("nobody"), 60.0, [0.25, 0.5, 1]),
        (Unanswered("slow"), 20.0, []),
    ],
)
def test_waits_grow_and_end_with_the_patience(
    error: Exception, patience: float, expected: list[float]
) -> None:
    waits: list[float] = []

    def send() -> None:
        raise error

    with pytest.raises(type(error)):
        send_patiently(send, patience, waits.append)
    assert waits == expected


def test_gateway_before_the_server_gets_its_headers(cloud: tuple[int, Cloud], tmp_path: Path) -> None:
    port, seen = cloud
    given = {"tenant": "acme", "database": "prod", "headers": {"X-Key": SecretStr("k")}}
    config = RemoteChroma(host=HOST, port=port, **given)  # type: ignore[arg-type]
    with opened_backend(config, Ownership("ours"), tmp_path / "log") as backend:
        assert backend.connection.answers(5.0)
        backend.names()
    assert [headers.get("x-key") for headers in seen.headers] == ["k", "k"]
