"""An asset of Dagster that is one pass of ingestor, and a check that compares it with its sources.

It needs `pip install dagster`, and `ingestor` on the path or named by INGESTOR. Without a daemon a schedule
keeps the collection in step; beside one, `sync` reports that the daemon does the work.

    dagster dev -f dagster_sync.py
"""

import json
import os
import subprocess

import dagster as dg

CONFIG = os.environ.get("INGESTOR_CONFIG", "config.yaml")
IN_STEP = (0, 3)  # exit codes: settled; settled, with documents that cannot be read


def ingestor(command: str) -> tuple[int, dict]:
    """Run a command; return its exit code and report. Raises dagster.Failure for one that could not start."""
    program = os.environ.get("INGESTOR", "ingestor")
    done = subprocess.run(
        [program, command, "--json", "--config", CONFIG], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise dg.Failure(done.stderr.strip() or f"ingestor {command}: exit code {done.returncode}")
    return done.returncode, json.loads(done.stdout)


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=2, delay=60))
def collection() -> dg.MaterializeResult:
    """Documents, indexed in Chroma."""
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
