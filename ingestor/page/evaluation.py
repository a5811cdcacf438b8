"""``GET /page/evaluation``: what the last ``ingestor evaluate`` of a collection found."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from ingestor.evaluate import kept
from ingestor.http_server.problems import RequestProblem
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation

HERE = "/page/evaluation"


def evaluation(daemon: DaemonView, found: Situation, request: Request) -> Mapping[str, Any]:
    """Raises RequestProblem."""
    wanted = request.query_params.get("collection", "")
    known = kept.read(daemon.folders["state"])
    if wanted not in known:
        raise RequestProblem.at(
            "collection", 404, "no evaluation of this collection is kept: run `ingestor evaluate` first"
        )
    report = known[wanted].report
    rows = report["strategies"]
    budgets = list(rows[0]["recall"]) if rows else []
    return {
        "now": found.at,
        "at": known[wanted].at,
        "report": report,
        "rows": rows,
        "budgets": budgets,
        "priced": any(one["collection"]["cost"] is not None for one in rows),
        "reranked": any(one["rerank_seconds"] is not None for one in rows),
    }


def evaluated(daemon: DaemonView) -> frozenset[str]:
    """Collections that have an evaluation."""
    return frozenset(kept.read(daemon.folders["state"]))
