"""The files of deploy/ fit the program: their configs are good, and their metrics and ports exist."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingestor.config.check import check
from ingestor.config.models import Config
from ingestor.config.yaml_tree import parse
from ingestor.engine.embedding import Counts
from ingestor.service.situation import CollectionFigures, Situation, SourceFigures
from ingestor.state.run_status import CheckResult, Live
from tests.service.test_figures import exposed

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SERVICE = DEPLOY / "ingestor.service"
METRIC = re.compile(r"\bingestor_[a-z_]+\b")
TOKENS = {"CHROMA_TOKEN": "c" * 64, "INGESTOR_TOKEN": "i" * 64}
RATED_BY_SYSTEMD = 35  # exposure of ten points, in tenths: "OK"


KUBERAY = "ray.io/v1"  # resources of an operator, which validators do not know


def kubernetes(file: str = "kubernetes.yaml") -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / file).read_text())}


def test_image_is_made_of_what_its_build_is_given() -> None:
    given = re.findall(r"(?m)^!(\S+)", (ROOT / ".dockerignore").read_text())
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text())
    wanted = [name for line in copied for name in line.split()]
    assert sorted(wanted) == sorted(given)
    assert all((ROOT / name).exists() for name in wanted)


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="Debian's package prometheus is not installed"
)


@pytest.mark.parametrize("where", ["compose", "kubernetes", "kubernetes-ray"])
def test_compose_configs_are_valid_and_use_published_ports(where: str) -> None:
    text = (
        (DEPLOY / "config.yaml").read_text()
        if where == "compose"
        else kubernetes(f"{where}.yaml")["ConfigMap"]["data"]["config.yaml"]
    )
    config = check(parse(text, TOKENS), Path("/etc/ingestor"))
    assert isinstance(config, Config), config
    assert not config.warnings
    ports = {config.chroma.port, config.http.port}  # type: ignore[union-attr]
    assert ports == {8000, 8001}


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    said = set(METRIC.findall((DEPLOY / "prometheus" / "alerts.yml").read_text()))
    panels = json.loads((DEPLOY / "grafana" / "ingestor.json").read_text())["panels"]
    said |= {name for panel in panels for each in panel["targets"] for name in METRIC.findall(each["expr"])}
    documented = {
        f"ingestor_{name}"
        for row in re.findall(r"^\| `ingestor_.*?\|", (ROOT / "docs" / "service.md").read_text(), re.M)
        for name in names(row)
    }
    assert {re.sub("_bucket$", "", name) for name in said} <= documented
    assert len(said) > 15


def names(row: str) -> list[str]:
    """Metrics of one row of the table, without their prefix: `ingestor_a_b`, `_c` stands for a_b and a_c."""
    words = re.findall(r"`(ingestor_|_)([a-z_]+)`", row)
    first = words[0][1]
    found = [first]
    for prefix, name in words[1:]:
        found += [name] if prefix == "ingestor_" else [f"{stem}_{name}" for stem in stems(first)]
    return found


def stems(name: str) -> list[str]:
    parts = name.split("_")
    return ["_".join(parts[:end]) for end in range(1, len(parts))]


@needs_promtool
def test_prometheus_reads_its_files() -> None:
    for asked in (["rules", "alerts.yml"], ["config", "--syntax-only", "prometheus.yml"]):
        done = promtool("check", *asked, folder=DEPLOY / "prometheus")
        assert done.returncode == 0, done.stdout + done.stderr


LISTED = SourceFigures(last_listing=0.0, interval=300.0)
STALLED = {
    "IngestorEngineStalled": Situation(idle=400.0),
    "IngestorEmbeddingStalled": Situation(embedded=Counts(busy_for=400.0)),
    "IngestorChromaDown": Situation(chroma_up=False),
    "IngestorLag": Situation(at=2000.0, sources={"docs": replace(LISTED, last_listing=9e9, oldest=0.0)}),
    "IngestorListingStalled": Situation(sources={"docs": LISTED}),
    "IngestorNeverListed": Situation(sources={"docs": SourceFigures(interval=300.0)}),
    "IngestorConfigRefused": Situation(live=Live(config_error="line 3")),
    "IngestorRestartPending": Situation(live=Live(restart_pending=True)),
    "IngestorStateUnwritable": Situation(live=Live(state_error="disk full")),
    "IngestorCollectionUnreadable": Situation(collections={"docs": CollectionFigures(readable=False)}),
    "IngestorCollectionUnwritable": Situation(collections={"docs": CollectionFigures(writable=False)}),
    "IngestorOnlyRetries": Situation(
        documents={("docs", "docs", "waiting"): 2},
        sources={"docs": replace(LISTED, last_listing=9e9, last_success=0.0)},
    ),
    "IngestorDiskFull": Situation(disk_free={"state": 10**8}),
    "IngestorSourceHeld": Situation(sources={"docs": SourceFigures(held=True)}),
    "IngestorQuarantined": Situation(reasons=[("docs", "password needed", 3)]),
    "IngestorRecallFell": Situation(checks=[CheckResult("docs", "faq.csv", 0.5, 0.2, False, 0.0)]),
    "": Situation(sources={"docs": replace(LISTED, paused=True), "wiki": SourceFigures(last_listing=0.0)}),
}


@needs_promtool
def test_alerts_fire_one_for_each_stall(tmp_path: Path) -> None:
    """After two hours with the daemon's own figures."""
    rules = {
        "rule_files": [str(DEPLOY / "prometheus" / "alerts.yml")],
        "tests": [fires(alert, situation) for alert, situation in STALLED.items()],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(rules))
    done = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def fires(alert: str, situation: Situation) -> dict[str, Any]:
    """Describe to promtool the one alert that a situation fires; "" stands for none."""
    series = [
        {"series": line.rpartition(" ")[0], "values": f"{line.rpartition(' ')[2]}+0x120"}
        for line in exposed(situation).splitlines()
        if not line.startswith("#")
    ]
    return {"name": alert, "interval": "1m", "input_series": series, "promql_expr_test": [{
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "2h",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else [],
    }]}  # fmt: skip


def test_every_stall_has_an_alert() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    assert {rule["alert"] for rule in group["rules"]} == {*STALLED, "IngestorDown"} - {""}


def promtool(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, timeout=60)


def test_unit_takes_secrets_and_survives_a_parser_without_memory() -> None:
    """systemd ends a service whose process ran out of memory, unless it is told to continue."""
    unit = dict(line.split("=", 1) for line in SERVICE.read_text().splitlines() if re.match("[A-Z]", line))
    assert unit["EnvironmentFile"] == "-/etc/ingestor/secrets.env"
    assert "#LoadCredential=" in SERVICE.read_text()
    high, most = (int(unit[key].removesuffix("G")) for key in ("MemoryHigh", "MemoryMax"))
    assert high < most
    assert unit["OOMPolicy"] == "continue"


VALIDATORS = {"kubeconform": ["-strict"], "kubernetes-validate": ["--strict", "--no-warn"]}


@pytest.mark.skipif(
    not any(map(shutil.which, VALIDATORS)), reason="neither kubeconform nor kubernetes-validate is installed"
)
@pytest.mark.parametrize("file", ["kubernetes.yaml", "kubernetes-ray.yaml"])
def test_kubernetes_reads_its_file(file: str, tmp_path: Path) -> None:
    known = [each for each in kubernetes_all(file) if each["apiVersion"] != KUBERAY]
    (tmp_path / file).write_text(yaml.safe_dump_all(known))
    command = next([name, *options] for name, options in VALIDATORS.items() if shutil.which(name))
    done = subprocess.run([*command, str(tmp_path / file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def kubernetes_all(file: str) -> list[dict[str, Any]]:
    """Its resources; the pods of a RayCluster also as pods, since those can be checked."""
    found = list(yaml.safe_load_all((DEPLOY / file).read_text()))
    for ray in [each for each in found if each["apiVersion"] == KUBERAY]:
        groups = [ray["spec"]["headGroupSpec"], *ray["spec"]["workerGroupSpecs"]]
        found += [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"pod-{n}"},
                "spec": group["template"]["spec"],
            }
            for n, group in enumerate(groups)
        ]
    return found


def test_ray_cluster_has_one_daemon_and_closed_pods() -> None:
    found = kubernetes("kubernetes-ray.yaml")
    spec = found["RayCluster"]["spec"]
    head, (worker,) = spec["headGroupSpec"], spec["workerGroupSpecs"]
    assert spec["rayVersion"] == "2.60.0", "the version that the tests run"
    assert head["rayStartParams"]["num-cpus"] == "0"
    ray, daemon = head["template"]["spec"]["containers"]
    shared = {each["mountPath"] for each in ray["volumeMounts"]}
    assert shared == {"/tmp", "/dev/shm"} <= {each["mountPath"] for each in daemon["volumeMounts"]}
    (process,) = worker["template"]["spec"]["containers"]
    secrets = {each["name"] for each in process["env"] if "valueFrom" in each}
    assert secrets == {"RAY_AUTH_TOKEN"}, "the secrets of sources and servers stay in the daemon"
    for container in (ray, daemon, process):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in container["env"]
    config = check(parse(found["ConfigMap"]["data"]["config.yaml"], TOKENS), Path("/etc/ingestor"))
    assert isinstance(config, Config)
    most = worker["maxReplicas"] * int(process["resources"]["limits"]["cpu"])
    assert config.workers.count + config.workers.embedders <= most


def test_deployment_has_one_writer_with_a_volume_and_probes() -> None:
    found = kubernetes()
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert found["StatefulSet"]["spec"]["replicas"] == 1
    paths = {key: each["httpGet"]["path"] for key, each in container.items() if key.endswith("Probe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    volumes = [each["name"] for each in pod["volumes"]]
    volumes += [each["metadata"]["name"] for each in found["StatefulSet"]["spec"]["volumeClaimTemplates"]]
    assert {each["name"] for each in container["volumeMounts"]} == set(volumes)
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_app_that_queries_has_the_client_of_the_lock_file() -> None:
    pinned = re.search(r"^chromadb==\S+", (ROOT / "locks/requirements.lock").read_text(), re.M)
    assert pinned is not None
    assert f" {pinned[0]} " in (DEPLOY / "compose.yaml").read_text()


def test_compose_mounts_files_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounts = [mount.split(":")[0] for each in services.values() for mount in each["volumes"]]
    local = [DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert local
    assert [path for path in local if not path.exists()] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_rates_its_walls(tmp_path: Path) -> None:
    unit = tmp_path / SERVICE.name
    unit.write_text(SERVICE.read_text().replace("/opt/ingestor/bin/ingestor", "/bin/true"))
    asked = ["systemd-analyze", "verify", str(unit)]
    verified = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    complaints = [line for line in verified.stderr.splitlines() if SERVICE.name in line]
    assert complaints == []
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={RATED_BY_SYSTEMD}", str(unit)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert rated.returncode == 0, rated.stdout
