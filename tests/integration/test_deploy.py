"""Deployment files: every metric exists, every setting is valid, and the times of a shutdown add up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from realtime_tts.config.load import resolve
from realtime_tts.engine.api import EngineStatus, ReplicaStatus
from realtime_tts.frontends.native.websocket import CLOSE_TIMEOUT_S
from realtime_tts.ops.metrics import THRESHOLDS_MS, Metrics
from tests.ops.test_metrics import cancelled, launch, sentence, utterance

yaml: Any = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "realtime-tts-rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
GPU = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes-gpu.yaml").read_text())}
REPLICAS = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "replicas.yaml").read_text())}
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
CHARTED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
EXPRESSIONS = CHARTED + [rule["expr"] for rule in RULES]
STOPPING_S = 3 * CLOSE_TIMEOUT_S
"""Limits of closing the connections, the engine thread and its lanes."""


def exposed() -> dict[str, set[str]]:
    """All metrics with their labels, after everything was counted once."""
    metrics = Metrics()
    replicas = (ReplicaStatus("replica-0", ready=True, reason="ready", listeners=1, capacity=2),)
    metrics.watch_engine("tone", lambda: EngineStatus(ready=True, reason="ready", replicas=replicas))
    metrics.redone("tone")("resumed")
    metrics.on_event(sentence(), 0.0)
    metrics.on_event(utterance(), 0.0)
    metrics.on_event(utterance(packets=0, ttfp_s=None), 0.0)
    metrics.on_event(cancelled(sent_s=0.0, played_s=0.0, requested_at_s=0.0), 0.001)
    metrics.rejected("overloaded")
    metrics.engine_observer("tone").on_batch(launch(1), 0.01, 0)
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"realtime_tts_\w+", expression))


def test_every_metric_in_an_expression_exists_with_its_labels() -> None:
    known = exposed()
    for expression in EXPRESSIONS:
        assert names_in(expression), expression
        assert names_in(expression) <= known.keys(), expression
        for name, selector in re.findall(r"(realtime_tts_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=~?\"", selector)) - {"job"} <= known[name], expression
        for grouping in re.findall(r"(?:by|without) \(([^)]*)\)", expression):
            labels = {label.strip() for label in grouping.split(",")}
            assert any(labels <= known[name] for name in names_in(expression)), expression
        for threshold in re.findall(r'threshold_ms="(\w+)"', expression):
            assert int(threshold) in THRESHOLDS_MS, expression
        assert expression.count("(") == expression.count(")"), expression


def test_every_metric_is_on_the_dashboard() -> None:
    families = {re.sub(r"_(bucket|sum|count|created|total)$", "", name) for name in exposed()}
    charted = {
        re.sub(r"_(bucket|sum|count|total)$", "", name) for expression in CHARTED for name in names_in(expression)
    }
    assert families - charted == set()


def test_no_panels_overlap_and_each_has_a_description() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    squares = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(squares)) == len(squares)
    assert max(x for x, _y in squares) < 24
    assert all(panel["description"] for panel in panels if panel["type"] != "row")


def test_every_metric_of_the_alerts_and_the_readme_exists() -> None:
    assert [rule["alert"] for rule in RULES] == ["PlaybackHasGaps", "ListenersRefused"]
    assert names_in((DEPLOY / "README.md").read_text()) <= exposed().keys()


def test_the_settings_of_the_example_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(MANIFESTS["ConfigMap"]["data"]["server.toml"])
    config = resolve(config_file=path, environment={}, flags={}).config
    assert config.server.port == CONTAINER["ports"][0]["containerPort"]
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert config.auth.key_file is not None
    assert str(config.auth.key_file.parent) == mounts["keys"]
    assert CONTAINER["args"] == ["serve", "--config", f"{mounts['config']}/server.toml"]
    assert config.logging.format == "json"


def test_the_grace_period_is_longer_than_the_shutdown(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(MANIFESTS["ConfigMap"]["data"]["server.toml"])
    drain_s = resolve(config_file=path, environment={}, flags={}).config.server.drain_s
    pre_stop_s = float(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert POD["terminationGracePeriodSeconds"] >= pre_stop_s + drain_s + STOPPING_S
    ready = CONTAINER["readinessProbe"]
    assert pre_stop_s >= ready["periodSeconds"] * ready["failureThreshold"]


def test_probes_use_the_health_endpoints() -> None:
    paths = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}
    assert POD["enableServiceLinks"] is False


def test_the_parts_of_the_example_refer_to_each_other() -> None:
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["Service"]["spec"]["selector"],
        MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
    scrape = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    (job,) = scrape["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["relabel_configs"][0]["regex"] == labels["app"]
    assert all((DEPLOY / name).exists() for name in scrape["rule_files"])


def volumes_match(pod: Any) -> bool:
    (container,) = pod["containers"]
    return {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_gpu_variant_has_an_engine_for_each_gpu(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(GPU["ConfigMap"]["data"]["server.toml"])
    config = resolve(config_file=path, environment={}, flags={}).config
    pod = GPU["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert config.cluster.replicas == container["resources"]["limits"]["nvidia.com/gpu"]
    assert config.server.port == container["ports"][0]["containerPort"]
    assert config.model.name[0].startswith("/models/")
    pre_stop_s = float(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] >= pre_stop_s + config.server.drain_s + STOPPING_S
    assert volumes_match(pod)
    labels = GPU["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert GPU["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"].items() <= labels.items()


def test_the_replicas_of_the_stateful_set_are_reached_by_the_server_alone() -> None:
    spec = REPLICAS["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["serviceName"] == REPLICAS["Service"]["metadata"]["name"]
    policy = REPLICAS["NetworkPolicy"]["spec"]
    for selector in (
        spec["selector"]["matchLabels"],
        REPLICAS["Service"]["spec"]["selector"],
        policy["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    (rule,) = policy["ingress"]
    (source,) = rule["from"]
    assert source["podSelector"]["matchLabels"].items() <= MANIFESTS["Service"]["spec"]["selector"].items()
    assert rule["ports"] == [{"port": container["ports"][0]["name"]}]
    assert container["args"][0] == "replica"
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")
    assert volumes_match(pod)
    # The addresses that the file advises for the server.
    text = (DEPLOY / "replicas.yaml").read_text()
    (addresses,) = re.findall(r"REALTIME_TTS_CLUSTER_ADDRESSES=(\S+)", text)
    name, service = REPLICAS["StatefulSet"]["metadata"]["name"], spec["serviceName"]
    assert addresses.split(",") == [f"{name}-{number}.{service}:9000" for number in range(spec["replicas"])]
    environment = {"REALTIME_TTS_CLUSTER_ADDRESSES": addresses, "REALTIME_TTS_CLUSTER_TOKEN": "x" * 32}
    config = resolve(config_file=None, environment=environment, flags={}).config
    assert config.cluster.addresses == tuple(addresses.split(","))


def test_the_compose_file_has_a_server_that_uses_every_replica_and_is_scraped() -> None:
    services = COMPOSE["services"]
    replicas = [name for name, service in services.items() if service.get("command", [""])[0] == "replica"]
    command = services["server"]["command"]
    assert [command[at + 1] for at, word in enumerate(command) if word == "--replica"] == [
        f"{n}:9000" for n in replicas
    ]
    assert services["server"]["depends_on"] == replicas
    environment = {key: str(value) for key, value in services["server"]["environment"].items() if "TOKEN" not in key}
    config = resolve(config_file=None, environment=environment, flags={}).config
    assert config.server.hosts == ("localhost", "server")
    assert float(services["server"]["stop_grace_period"].removesuffix("s")) >= config.server.drain_s + STOPPING_S
    for name in replicas:
        assert "ports" not in services[name], "a replica is for the server alone"
    scrape = yaml.safe_load((DEPLOY / "compose-prometheus.yaml").read_text())
    targets = [
        target for job in scrape["scrape_configs"] for each in job["static_configs"] for target in each["targets"]
    ]
    assert targets == ["server:8000", *(f"{name}:9000" for name in replicas)]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    assert all((DEPLOY / name).exists() for name in mounted)
    assert all((DEPLOY / name).exists() for name in scrape["rule_files"])
