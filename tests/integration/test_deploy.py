"""What is shipped for operators is true: every metric exists, every setting is read, and the times add up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from realtime_tts.config.schema import resolve
from realtime_tts.engine.api import EngineStatus
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
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
CHARTED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
EXPRESSIONS = CHARTED + [rule["expr"] for rule in RULES]
STOPPING_S = 3 * CLOSE_TIMEOUT_S
"""Goodbyes, the engine thread, its lanes: each at most so long."""


def exposed() -> dict[str, set[str]]:
    """The names that a scraper finds once everything has happened, with their labels."""
    metrics = Metrics()
    metrics.watch_engine(lambda: EngineStatus(ready=True, reason="ready"))
    metrics.on_event(sentence(), 0.0)
    metrics.on_event(utterance(), 0.0)
    metrics.on_event(utterance(packets=0, ttfp_s=None), 0.0)
    metrics.on_event(cancelled(sent_s=0.0, played_s=0.0, requested_at_s=0.0), 0.001)
    metrics.rejected("overloaded")
    metrics.on_batch(launch(1), 0.01, 0)
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"realtime_tts_\w+", expression))


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_every_metric_that_is_asked_for_exists_with_its_labels(expression: str) -> None:
    known = exposed()
    assert names_in(expression)
    assert names_in(expression) <= known.keys()
    for name, selector in re.findall(r"(realtime_tts_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)=~?\"", selector)) - {"job"} <= known[name]
    for by in re.findall(r"by \(([^)]*)\)", expression):
        labels = {label.strip() for label in by.split(",")}
        assert any(labels <= known[name] for name in names_in(expression)), by
    for threshold in re.findall(r'threshold_ms="(\w+)"', expression):
        assert int(threshold) in THRESHOLDS_MS
    assert expression.count("(") == expression.count(")")


def test_every_metric_of_ours_is_charted() -> None:
    families = {re.sub(r"_(bucket|sum|count|created|total)$", "", name) for name in exposed()}
    charted = {
        re.sub(r"_(bucket|sum|count|total)$", "", name) for expression in CHARTED for name in names_in(expression)
    }
    assert families - charted == set()


def test_every_panel_has_its_own_place_and_explains_itself() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _y in cells) < 24
    assert all(panel["description"] for panel in panels if panel["type"] != "row")


def test_every_metric_of_the_alerts_and_the_readme_exists() -> None:
    assert [rule["alert"] for rule in RULES] == ["ListenersRunDry", "ListenersRefused"]
    assert names_in((DEPLOY / "README.md").read_text()) <= exposed().keys()


def test_the_example_s_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(MANIFESTS["ConfigMap"]["data"]["server.toml"])
    config = resolve(config_file=path, environment={}, flags={}).config
    assert config.server.port == CONTAINER["ports"][0]["containerPort"]
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert config.auth.key_file is not None
    assert str(config.auth.key_file.parent) == mounts["keys"]
    assert CONTAINER["args"] == ["serve", "--config", f"{mounts['config']}/server.toml"]
    assert config.logging.format == "json"


def test_whoever_drains_is_not_killed_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(MANIFESTS["ConfigMap"]["data"]["server.toml"])
    drain_s = resolve(config_file=path, environment={}, flags={}).config.server.drain_s
    pre_stop_s = float(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert POD["terminationGracePeriodSeconds"] >= pre_stop_s + drain_s + STOPPING_S
    ready = CONTAINER["readinessProbe"]
    assert pre_stop_s >= ready["periodSeconds"] * ready["failureThreshold"]


def test_probes_ask_what_the_server_answers() -> None:
    paths = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}
    assert POD["enableServiceLinks"] is False


def test_the_parts_of_the_example_find_each_other() -> None:
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
