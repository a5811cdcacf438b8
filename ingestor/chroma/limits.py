"""Values that Chroma refuses or silently changes, checked before each write."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingestor.model import Metadata, Record, RecordId

_LARGEST = 2**63  # beyond it Chroma turns an integer into a float


def check_records(records: Sequence[Record]) -> None:
    """Raises ValueError, naming the record: a defect of ours, not of the document."""
    import numpy as np

    check_ids([record.id for record in records])
    for record in records:
        if not np.isfinite(record.vector).all():
            raise ValueError(f"record {record.id!r}: its vector holds NaN or infinity")
        _check_text(record.id, record.text)
        _check_metadata(record.id, record.metadata)


def check_patches(patches: Sequence[tuple[RecordId, Metadata]]) -> None:
    """Raises ValueError, naming the record."""
    check_ids([name for name, _ in patches])
    for name, metadata in patches:
        _check_metadata(name, metadata)


def check_ids(ids: Sequence[RecordId]) -> None:
    """Raises ValueError if an id occurs twice: which one wins would depend on the batches."""
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise ValueError(f"records named twice in one call: {', '.join(map(repr, repeated))}")


def _check_metadata(name: RecordId, metadata: Metadata) -> None:
    _check_text(name, *metadata)
    _check_text(name, *[value for value in metadata.values() if isinstance(value, str)])
    for key, value in metadata.items():
        if value is None or isinstance(value, str):
            continue
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            _check_text(name, *value)
        elif not _storable(value):
            raise ValueError(f"record {name!r}: {key} = {value!r} can't be stored")


def _storable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST


def _check_text(name: RecordId, *texts: str) -> None:
    if "".join(texts).isascii():
        return
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"record {name!r}: lone surrogate at {error.start} of {text[:40]!r}") from error
