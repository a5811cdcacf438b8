"""Needs moto and botocore; the table of messages does not."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from ingestor.connectors.remote import queue
from ingestor.connectors.remote.queue import Queue, QueueOptions
from ingestor.connectors.remote.queue_events import changed
from ingestor.model import Hint, SourceName
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.stores import s3_server
from tests.e2e.project import free_port, wait


def s3_event(*keys: str, bucket: str = "b") -> dict[str, Any]:
    return {"Records": [{"s3": {"bucket": {"name": bucket}, "object": {"key": key}}} for key in keys]}


@pytest.mark.parametrize(
    ("message", "objects"),
    [
        (s3_event("docs/a+b+%C3%A9%2B.md", "c"), [("b", "docs/a b é+.md"), ("b", "c")]),
        ({"Type": "Notification", "Message": json.dumps(s3_event("a"))}, [("b", "a")]),
        ({"detail": {"bucket": {"name": "b"}, "object": {"key": "a+b"}}}, [("b", "a+b")]),
        ({"Event": "s3:TestEvent", "Bucket": "b"}, []),
        ({"Records": []}, []),
        ({}, None),
        ([], None),
        (1, None),
        ({"Message": "hello"}, None),
        ({"Message": None}, None),
        ({"Records": [{"dynamodb": {}}]}, None),
    ],
)
def test_what_a_message_says(message: object, objects: object) -> None:
    assert changed(json.dumps(message)) == objects


def test_what_is_no_message() -> None:
    assert changed("hello") is None


def options(**more: object) -> QueueOptions:
    given = {"queue": "http://127.0.0.1:1/1/q", "source": "files", "url": "s3://b/docs", "settle": 0, **more}
    return QueueOptions.model_validate({"region": "us-east-1", "key": "k", "secret": "s3cret", **given})


@pytest.mark.parametrize(
    "wrong", [{"queue": "q"}, {"queue": "https://user@host/q"}, {"url": "bucket/docs"}, {"settle": -1}]
)
def test_options_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        options(**wrong)


class Sqs:
    """A queue to which a bucket sends its events, and what a watch made of them."""

    def __init__(self, server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queue, "WAIT", 1)
        session = pytest.importorskip("botocore.session").get_session()
        who = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
        self.s3, self.sqs = (
            session.create_client(kind, endpoint_url=server["endpoint_url"], **who) for kind in ("s3", "sqs")
        )
        self.url = self.sqs.create_queue(QueueName=f"q{free_port()}")["QueueUrl"]
        self.bucket = f"b{free_port()}"
        self.s3.create_bucket(Bucket=self.bucket)
        arn = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"]
        target = {"QueueArn": arn["QueueArn"], "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
        self.s3.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration={"QueueConfigurations": [target]}
        )
        self.sqs.purge_queue(QueueUrl=self.url)  # of the event that tells that there will be events
        self.hints: list[Hint] = []

    def put(self, key: str) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=b"x")

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    @property
    def connector(self) -> Queue:
        return Queue(options(queue=self.url, url=f"s3://{self.bucket}/docs"))

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    @contextmanager
    def watched(self) -> Iterator[None]:
        stop, connector = threading.Event(), self.connector

        def gather() -> None:
            for hint in connector.watch(stop):
                self.hints.append(hint)  # one by one, for the test looks meanwhile

        thread = threading.Thread(target=gather)
        thread.start()
        try:
            wait(lambda: self.hints == [Hint()])
            self.hints.clear()
            yield
        finally:
            stop.set()
            thread.join(20)
        assert not thread.is_alive()

    def told(self) -> list[Hint]:
        """All hints, once the queue is empty."""
        wait(lambda: not self.left())
        found, self.hints[:] = list(self.hints), []
        return found


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sqs]:
    pytest.importorskip("moto")
    with s3_server() as server:
        yield Sqs(server, monkeypatch)


def of_files(under: str) -> Hint:
    return Hint(under, SourceName("files"))


@pytest.mark.slow
def test_what_happens_in_the_bucket_is_hinted_at(sqs: Sqs) -> None:
    with sqs.watched():
        sqs.put("docs/sub/a b é+.md")
        assert sqs.told() == [of_files("sub/a b é+.md")]
        sqs.delete("docs/sub/a b é+.md")
        assert sqs.told() == [of_files("sub/a b é+.md")]
        sqs.put("elsewhere/a.md")
        sqs.send(json.dumps(s3_event("docs/a.md", bucket="another")))
        assert sqs.told() == []
        sqs.send("what is this?")
        assert sqs.told() == [of_files("")]


@pytest.mark.slow
def test_many_are_drawn_together(sqs: Sqs) -> None:
    for n in range(150):
        sqs.put(f"docs/sub/{n}.md")
    with sqs.watched():
        assert set(sqs.told()) == {of_files("sub")}


@pytest.mark.slow
def test_a_message_stays_until_its_hint_was_passed_on(sqs: Sqs) -> None:
    sqs.put("docs/a.md")
    hints = sqs.connector.watch(threading.Event())
    assert [next(hints), next(hints)] == [Hint(), of_files("a.md")]
    assert sqs.left() == 1
    hints.close()
    assert sqs.left() == 1


@pytest.mark.slow
def test_there_are_no_documents_and_a_missing_queue_is_said(
    sqs: Sqs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "connectors")
    assert list(sqs.connector.scan()) == []
    missing = Queue(options(queue=f"{sqs.url}-not"))
    with pytest.raises(NeedsHuman, match="check `queue`") as error:
        missing.scan()
    assert "s3cret" not in str(error.value) + caplog.text + repr(missing._options)


@pytest.mark.slow
def test_a_server_that_is_down_may_come_back() -> None:
    pytest.importorskip("botocore")
    with pytest.raises(Transient, match="now, will be retried"):
        Queue(options()).scan()


def test_a_message_that_is_nested_without_end_tells_nothing() -> None:
    assert changed("[" * 100_000) is None
    assert changed('{"Message":' * 100_000) is None
