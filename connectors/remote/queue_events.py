"""Changed objects in a queue's messages. Pure.

Events of S3 and compatible stores are understood: sent directly, through SNS (in an envelope) or through
EventBridge.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus

Changed = tuple[str, str]  # bucket and key of an object


def changed(message: str) -> list[Changed] | None:
    """The objects in a message; None if its form is unknown."""
    try:
        return list(_objects(json.loads(message)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _objects(event: Any) -> Iterator[Changed]:
    if "Message" in event:  # SNS
        yield from _objects(json.loads(event["Message"]))
    elif "detail" in event:  # EventBridge, which does not encode keys
        yield event["detail"]["bucket"]["name"], event["detail"]["object"]["key"]
    elif event.get("Event") != "s3:TestEvent":
        for record in event["Records"]:
            yield record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"])
