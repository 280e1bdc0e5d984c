"""The chart: what Helm renders is valid, and is what the manifests of deploy/kubernetes are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from tests.release.conftest import CHECKOUT

CHART = CHECKOUT / "deploy" / "helm"
VERSION = "1.37"
DATABASE = "settings.ITC_DATABASE_URL=postgresql://itc:change-me@postgresql/itc"
EVERYTHING = (
    *("ingress.enabled=true", "ingress.className=nginx", "ingress.tlsSecret=itc-tls"),
    *("serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"),
    *("prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus"),
    *("networkPolicy.ports={5671,15671}", "image.repository=registry.example.org/itc"),
    "networkPolicy.from[0].namespaceSelector.matchLabels.name=monitoring",
)
STORES = {"sqlite": (), "postgresql": ("store=postgresql", DATABASE)}
# The models of its resources that the Prometheus Operator publishes hold an object to its schema.
JUDGE = """
(async () => {
  for (const object of JSON.parse(require("fs").readFileSync(0))) {
    const place = `@kubernetes-models/prometheus-operator/${object.apiVersion}/${object.kind}`;
    const models = await import(place);
    new models[object.kind](object).validate();
  }
})();
"""


def render(helm: Path, *values: str, chart: Path = CHART) -> list[dict[str, Any]]:
    words = [word for value in values for word in ("--set", value)]
    done = subprocess.run(
        [helm, "template", "rabbitmq-itc", chart, *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> dict[str, Any]:
    [one] = [each for each in manifests if each["kind"] in kinds]
    return one


def judge(node: Path, manifests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("node")
    return subprocess.run(
        [program, "-e", JUDGE],
        input=json.dumps(manifests),
        cwd=node,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("more", [(), EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("store", STORES)
def test_what_is_rendered_is_valid(
    helm: Path, node: Path, store: str, more: tuple[str, ...]
) -> None:
    manifests = render(helm, *STORES[store], *more)
    monitoring = [each for each in manifests if "monitoring.coreos.com" in each["apiVersion"]]
    for each in manifests:
        if each not in monitoring:
            validate(each, VERSION, strict=True)
    done = judge(node, monitoring)
    assert done.returncode == 0, done.stderr
    kinds = {each["kind"] for each in manifests}
    assert ({"Ingress", "ServiceMonitor", "PrometheusRule"} <= kinds) == bool(more)
    assert {"Secret", "Service", "NetworkPolicy"} <= kinds
    assert ("PodDisruptionBudget" in kinds) == (store == "postgresql")


def test_a_misspelt_field_of_the_operator_s_is_found(helm: Path, node: Path) -> None:
    monitor = of_kind(render(helm, *EVERYTHING), "ServiceMonitor")
    monitor["spec"]["endpoints"] = "http"
    assert judge(node, [monitor]).returncode != 0


@pytest.mark.parametrize("store", STORES)
def test_it_is_what_the_manifests_are(helm: Path, store: str) -> None:
    text = (CHECKOUT / "deploy" / "kubernetes" / store / "rabbitmq-itc.yaml").read_text()
    manifests = {each["kind"]: each for each in yaml.safe_load_all(text)}
    rendered = {each["kind"]: each for each in render(helm, *STORES[store])}
    assert rendered.keys() == manifests.keys()
    for kind, manifest in manifests.items():
        chart = rendered[kind]
        assert chart["metadata"]["name"] == manifest["metadata"]["name"]
        assert _without_marks(chart) == _without_marks(manifest), kind


def _without_marks(value: Any) -> Any:
    """Leave out what only Helm writes, the image, and that others may come beside one release."""
    if isinstance(value, dict):
        marks = ("labels", "annotations", "image", "app.kubernetes.io/instance")
        return {name: _without_marks(each) for name, each in value.items() if name not in marks}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value


def test_the_rules_are_those_that_prometheus_loads(helm: Path) -> None:
    manifests = render(helm, "prometheusRule.enabled=true", "serviceMonitor.enabled=true")
    rules = of_kind(manifests, "PrometheusRule")["spec"]
    file = CHECKOUT / "deploy" / "prometheus" / "rabbitmq-itc.rules.yml"
    assert rules == yaml.safe_load(file.read_text())
    label = of_kind(manifests, "ServiceMonitor")["spec"]["jobLabel"]
    job = of_kind(manifests, "Service")["metadata"]["labels"][label]
    assert f'up{{job="{job}"}}' in file.read_text()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("store=mysql",), "store is sqlite or postgresql, not mysql"),
        (("store=postgresql",), "store postgresql needs settings.ITC_DATABASE_URL"),
    ],
)
def test_values_that_cannot_work_are_refused_in_a_sentence(
    helm: Path, values: tuple[str, ...], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        render(helm, *values)


def test_an_existing_secret_takes_the_place_of_the_chart_s(helm: Path) -> None:
    manifests = render(helm, "store=postgresql", "existingSecret=mine")
    assert "Secret" not in {each["kind"] for each in manifests}
    pod = of_kind(manifests, "Deployment")["spec"]["template"]
    assert pod["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "mine"}}]


def test_the_archive_renders_as_the_folder_and_lints(helm: Path, dist: Path) -> None:
    [archive] = dist.glob("*.tgz")
    assert render(helm, *EVERYTHING, chart=archive) == render(helm, *EVERYTHING)
    done = subprocess.run([helm, "lint", "--strict", archive], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
