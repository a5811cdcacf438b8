"""Where documents are prepared: on threads of the daemon, or in processes that Ray starts on nodes. Pure."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ingestor.registry import Options, require_match
from ingestor.units import Size

THREADS = 64  # at most


class Workers(Options):
    """Options that decide where documents are prepared.

    This is done on threads of the daemon, or in processes that Ray starts on nodes.
    """

    kind: Literal["threads", "ray"] = Field(
        default="threads",
        description="`threads` of the daemon, or `ray`: processes in a [Ray cluster](ray.md), with the "
        "extra `ray`. The keys below `count` are for `ray`",
    )
    count: int = Field(
        default=16,
        ge=1,
        le=256,
        description="documents prepared at the same time; at most 64 `threads`. With `ray`, also the "
        "most processes",
    )
    address: Annotated[
        str,
        require_match(
            r"auto|local|ray://\S+|[^\s/]+:\d+", "must be auto, local, HOST:PORT or ray://HOST:PORT"
        ),
    ] = Field(
        default="auto",
        description="`auto`: the cluster of this machine or of `RAY_ADDRESS`; `local`: one that ends with"
        " the daemon; or `host:port`, or `ray://host:port`",
    )
    cpus: float = Field(
        default=1.0, gt=0, le=64, description="CPUs for each process that parses and chunks documents"
    )
    embedders: int = Field(
        default=1,
        ge=0,
        le=256,
        description="most processes that embed; `0`: the daemon embeds. The daemon always calls embedding"
        " servers itself",
    )
    embedder_cpus: float = Field(
        default=0.0,
        ge=0,
        le=256,
        description="CPUs reserved for each process that embeds; `0`: none, it shares the CPUs of "
        "waiting documents",
    )
    embedder_gpus: float = Field(default=0.0, ge=0, le=64, description="GPUs for each process that embeds")
    in_flight: Size = Field(
        default=128 * 10**6,
        ge=10**6,
        description="bytes of documents that are processed at the same time; a larger document is "
        "processed alone",
    )
    runtime_env: dict[str, Any] = Field(
        default={},
        description="passed to Ray unchanged, for packages that nodes lack; variables are refused, "
        "because Ray's dashboard shows the value",
    )

    @field_validator("runtime_env")
    @classmethod
    def _no_environment(cls, given: dict[str, Any]) -> dict[str, Any]:
        if "working_dir" in given:
            raise ValueError("must not contain `working_dir`: each process runs in a folder of its own")
        return given

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Workers":
        if self.kind == "threads":
            if others := sorted(self.model_fields_set - {"kind", "count"}):
                raise ValueError(f"with `kind: threads`, remove {', '.join(others)}; or set `kind: ray`")
            if self.count > THREADS:
                raise ValueError(f"with `kind: threads`, `count` must be at most {THREADS}")
        return self
