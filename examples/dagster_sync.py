"""A Dagster asset that runs `ingestor sync`, and a check that compares the collection with its sources.

Install dagster. The program `ingestor` must be on the PATH, or the variable INGESTOR must name it. A schedule
of this asset replaces `ingestor run`. While `ingestor run` runs, `sync` only reports that.

    dagster dev -f dagster_sync.py
"""

import json
import os
import subprocess

import dagster as dg

CONFIG = os.environ.get("INGESTOR_CONFIG", "config.yaml")
IN_STEP = (0, 3)  # exit codes: settled; settled, with documents that cannot be read


def ingestor(command: str) -> tuple[int, dict]:
    """Run a command; return its exit code and its report. Raise dagster.Failure if it fails to start."""
    program = os.environ.get("INGESTOR", "ingestor")
    done = subprocess.run(
        [program, command, "--json", "--config", CONFIG], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise dg.Failure(done.stderr.strip() or f"ingestor {command}: exit code {done.returncode}")
    return done.returncode, json.loads(done.stdout)


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=2, delay=60))
def collection() -> dg.MaterializeResult:
    """All documents of the sources, indexed in Chroma."""
    code, report = ingestor("sync")
    if code not in IN_STEP:
        raise dg.Failure(
            json.dumps(report["held"] or report["problems"]),
            metadata={"report": dg.JsonMetadataValue(report)},
        )
    return dg.MaterializeResult(metadata={**report["documents"], "seconds": report["seconds"]})


@dg.asset_check(asset=collection)
def equals_its_sources() -> dg.AssetCheckResult:
    """Compare sources, journal and Chroma record by record."""
    code, report = ingestor("verify")
    return dg.AssetCheckResult(passed=code in IN_STEP, metadata={"checked": report["checked"]})


defs = dg.Definitions(
    assets=[collection],
    asset_checks=[equals_its_sources],
    schedules=[dg.ScheduleDefinition(name="hourly", target=[collection], cron_schedule="0 * * * *")],
)
