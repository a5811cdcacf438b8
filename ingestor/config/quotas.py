"""Limits of requests to a Chroma server that somebody else runs. Pure.

The defaults are those that Chroma Cloud publishes (docs.trychroma.com/cloud/quotas-limits, July 2026).
"""

from typing import Annotated

from pydantic import Field

from ingestor.registry import Options

Most = Annotated[int, Field(ge=1)] | None  # None: no bound


class Quotas(Options):
    """`quotas` as a mapping: a limit given here replaces that of Chroma Cloud; `null` is no limit."""

    metadata_keys: Annotated[int, Field(ge=16)] | None = Field(
        default=32, description="metadata keys of a record; further ones are left out, see metadata.md"
    )
    key_bytes: Most = Field(default=36, description="bytes of a metadata key; longer keys are left out")
    value_bytes: Annotated[int, Field(ge=256)] | None = Field(
        default=4096, description="bytes of a metadata value; longer values are truncated"
    )
    document_bytes: Most = Field(
        default=16384, description="bytes of a chunk's text; a document with a longer one is quarantined"
    )
    write_records: Most = Field(default=300, description="records of a request that writes")
    read_records: Most = Field(default=300, description="records of an answer")


CLOUD = Quotas()
UNBOUNDED = Quotas(
    metadata_keys=None,
    key_bytes=None,
    value_bytes=None,
    document_bytes=None,
    write_records=None,
    read_records=None,
)
