"""Notifications of changed objects from a queue: they trigger a listing of another source.

For a `files` source in S3 or the like whose bucket sends its events to SQS or a compatible queue. This source
has no documents. A message is deleted after its hint was passed on. A lost hint only delays a change, because
the source is listed every ``scan_every``. A message of unknown form triggers a listing of the whole source.
"""

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from ingestor.connectors.remote.queue_events import changed
from ingestor.connectors.shared.common_ancestors import cover
from ingestor.connectors.shared.names import key_of
from ingestor.model import Blob, Hint, Item, SourceName
from ingestor.ports import NeedsHuman, Stale, Stop, Transient
from ingestor.registry import Options, Plugin
from ingestor.units import Duration

WAIT = 4  # seconds of long polling
RETRY = 30.0  # seconds
MANY = 1000  # messages taken together
HINTS = 64  # at once; more are merged into hints for subtrees
_REFUSED = re.compile(
    r"AccessDenied|InvalidClientTokenId|SignatureDoesNotMatch|InvalidAccessKeyId|UnrecognizedClient|Expired"
    r"|NonExistentQueue|DoesNotExist|InvalidAddress|NoCredentials|NoRegion|PartialCredentials"
)
_log = logging.getLogger(__name__)
_Message = dict[str, Any]


def _queue(url: str) -> str:
    if not re.match(r"https?://[^/\s@]+/\S", url):
        raise ValueError("must be the URL of a queue, as in https://sqs.eu-central-1.amazonaws.com/1234/name")
    return url


def _bucket(url: str) -> str:
    if not re.match(r"\w+://[^/\s]", url):
        raise ValueError("must be the `url` of the source, as in s3://bucket/folder")
    return url.rstrip("/")


class QueueOptions(Options):
    queue: Annotated[str, AfterValidator(_queue)] = Field(description="URL of the queue")
    source: str = Field(description="name of the source to list")
    url: Annotated[str, AfterValidator(_bucket)] = Field(
        description="`url` of that source; events of other places are skipped"
    )
    region: str | None = Field(
        default=None,
        description="region of the queue; left out: from its URL, or from the settings of AWS tools",
    )
    key: SecretStr | None = Field(
        default=None, description="access key; left out: from the settings of AWS tools on this machine"
    )
    secret: SecretStr | None = Field(default=None, description="its secret: `${VAR}` or `file:/path`")
    settle: Duration = Field(
        default=10.0, description="shortest time between two hints, because each triggers a listing"
    )


class Queue:
    """Connector and Watchable, without documents."""

    def __init__(self, options: QueueOptions) -> None:
        self._options = options
        bucket, _, folder = options.url.partition("://")[2].partition("/")
        self._bucket, self._folder = bucket, f"{folder}/" if folder else ""
        self._client: Any = None

    def scan(self) -> Iterator[Item]:
        """No items; checks that the queue can be read. Raises NeedsHuman or Transient."""
        self._ask("get_queue_attributes", AttributeNames=["ApproximateNumberOfMessages"])
        return iter(())

    def fetch(self, item: Item) -> Blob:
        raise Stale(f"{item.uri} is not a document")

    def watch(self, stop: Stop) -> Iterator[Hint]:
        yield Hint()
        while not stop.is_set():
            try:
                messages = self._messages()
                yield from self._hints(messages)
                self._delete(messages)
                stop.wait(self._options.settle if messages else 0)
            except (NeedsHuman, Transient) as error:
                _log.debug("%s", error)  # the next listing reports it
                stop.wait(RETRY)

    def _messages(self) -> list[_Message]:
        """The messages in the queue, after a wait if it is empty."""
        taken: list[_Message] = []
        while len(taken) < MANY:
            wait = 0 if taken else WAIT
            answer = self._ask("receive_message", MaxNumberOfMessages=10, WaitTimeSeconds=wait)
            if not answer.get("Messages"):
                break
            taken += answer["Messages"]
        return taken

    def _hints(self, messages: Sequence[_Message]) -> Iterator[Hint]:
        keys = {key for message in messages for key in self._keys(message["Body"])}
        for key in cover(keys, HINTS):
            yield Hint(key, SourceName(self._options.source))

    def _keys(self, message: str) -> Iterator[str]:
        """Keys of the changed objects of the source."""
        objects = changed(message)
        if objects is None:
            _log.info("a message of unknown form: source %s is listed whole", self._options.source)
            yield ""
        for bucket, key in objects or ():
            if bucket == self._bucket and key.startswith(self._folder):
                yield key_of(key.removeprefix(self._folder).split("/"))

    def _delete(self, messages: Sequence[_Message]) -> None:
        for start in range(0, len(messages), 10):
            handles = [message["ReceiptHandle"] for message in messages[start : start + 10]]
            entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(handles)]
            self._ask("delete_message_batch", Entries=entries)

    def _ask(self, question: str, **details: Any) -> Any:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            wanted = f"{sys.executable} -m pip install botocore"
            raise NeedsHuman(f"botocore is not installed: {wanted}") from error
        try:
            self._client = self._client or self._made()
            return getattr(self._client, question)(QueueUrl=self._options.queue, **details)
        except (BotoCoreError, ClientError) as error:
            said = f"{self._options.queue} can't be read"
            why = f"{type(error).__name__}: {error}"
            if _REFUSED.search(why):
                raise NeedsHuman(f"{said} ({why}): check `queue`, `region`, `key` and `secret`") from error
            raise Transient(f"{said} now, will be retried: {why}") from error

    def _made(self) -> Any:
        from botocore.session import get_session

        options = self._options
        where = urlsplit(options.queue)
        region = re.match(r"sqs\.([\w-]+)\.amazonaws\.", where.netloc)
        return get_session().create_client(
            "sqs",
            endpoint_url=f"{where.scheme}://{where.netloc}",
            region_name=options.region or (region[1] if region else None),
            aws_access_key_id=options.key.get_secret_value() if options.key else None,
            aws_secret_access_key=options.secret.get_secret_value() if options.secret else None,
        )


PLUGIN = Plugin(kind="queue", version=1, options=QueueOptions, build=Queue)
