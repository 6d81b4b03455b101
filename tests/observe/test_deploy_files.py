"""The files of `deploy/`: a dashboard on metrics that exist, and manifests whose probes, variables and roles do."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from euterpe.config import Config, environment_name, load_config
from euterpe.config.loading import all_settings
from euterpe.observe.metrics import Metrics
from euterpe.server.routes import table
from euterpe.service.roles import ROLES

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
NOT_CONFIGURATION = {"POD_NAME", "POD_NAMESPACE", "EUTERPE_KEKS", "EUTERPE_ACTIVE_KEK"}


def routes() -> set[str]:
    return set(re.findall(r'"(/[a-z_/{}]+)"', inspect.getsource(table)))


def families() -> set[str]:
    page = Metrics().render()[1].decode()
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression names, without the suffixes of a histogram."""
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)|\[[^]]*\]|[a-z_]+\(", " ", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"[a-z]+(?:_[a-z]+)+", bare)}


def documents() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from YAML(typ="safe").load_all(path.read_text())


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [document for document in documents() if document["kind"] == kind]


def test_the_dashboard_shows_metrics_that_exist_and_all_of_them() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "euterpe.json").read_text())
    shown = {
        name for panel in dashboard["panels"] for target in panel["targets"] for name in metrics_in(target["expr"])
    }
    assert shown == families()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    (queue,) = [each for each in dashboard["templating"]["list"] if each["name"] == "queue"]
    assert metrics_in(queue["query"]["query"].partition("(")[2]) <= families()


def test_every_variable_of_the_manifests_is_a_key_and_has_a_value_that_fits() -> None:
    known = {f"EUTERPE_{environment_name(key)}" for key, _ in all_settings()}
    set_there: dict[str, str] = {}
    for document in documents():
        set_there |= document.get("data", {}) | document.get("stringData", {})
    for deployment in of_kind("Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            set_there |= {entry["name"]: entry.get("value", "") for entry in container["env"]}
    assert set_there.keys() - NOT_CONFIGURATION <= known
    assert load_config(None, set_there).api.host == "0.0.0.0"  # noqa: S104  # a pod listens to its probes


@pytest.mark.parametrize("name", ["api", "worker", "outbox", "transcode"])
def test_a_deployment_runs_a_real_role_with_probes_that_are_answered(name: str) -> None:
    (deployment,) = [each for each in of_kind("Deployment") if each["metadata"]["name"] == f"euterpe-{name}"]
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    role = container["args"][0].removeprefix("--role=")
    assert role in ROLES
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert list(ports.values()) == [Config().api.port if ROLES[role].serves else Config().observability.metrics_port]
    paths = routes() if ROLES[role].serves else {"/healthz", "/readyz", "/metrics"}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in paths
        assert asked["port"] in ports
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", "a database that is away restarts no pod"
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(*ports.values())
    assert template["spec"]["enableServiceLinks"] is False
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    grace_s = load_config(None, of_kind("ConfigMap")[0]["data"]).worker.grace_us / 1e6
    assert template["spec"]["terminationGracePeriodSeconds"] > (grace_s if name != "api" else 30)


def test_workers_are_scaled_by_signals_that_exist() -> None:
    (scaled,) = of_kind("ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] in {each["metadata"]["name"] for each in of_kind("Deployment")}
    for trigger in scaled["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert metrics_in(trigger["metadata"]["query"]) <= families()
        assert float(trigger["metadata"]["threshold"]) > 0


def test_manifests_pin_images_hold_no_secret_and_give_no_token() -> None:
    for deployment in of_kind("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert re.fullmatch(r"[a-z]+@sha256:[0-9a-f]{64}", container["image"]), container["image"]
    assert of_kind("Secret") == []


def test_a_network_policy_covers_every_pod_and_leaves_the_ports_of_probes_open() -> None:
    (policy,) = of_kind("NetworkPolicy")
    spec = policy["spec"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    open_ports = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
    for deployment in of_kind("Deployment"):
        template = deployment["spec"]["template"]
        assert spec["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        ports = [port["containerPort"] for each in template["spec"]["containers"] for port in each["ports"]]
        assert open_ports.issuperset(ports)
    (outside,) = [to["ipBlock"] for rule in spec["egress"] for to in rule.get("to", ()) if "ipBlock" in to]
    assert "169.254.0.0/16" in outside["except"], "the metadata of a cloud"
