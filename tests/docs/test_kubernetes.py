"""The manifests under deploy/kubernetes: what no schema says of them. `make check` has those."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes_validate import ValidationError, validate

from app.errors import SettingsError
from app.settings import Settings, load_settings, unknown_variables
from tests.docs.documents import CHECKOUT

KUBERNETES = CHECKOUT / "deploy" / "kubernetes"
FOLDERS = sorted(path.parent for path in KUBERNETES.glob("*/kustomization.yaml"))
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()
WORKLOADS = ("StatefulSet", "Deployment")

every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def manifests(folder: Path) -> list[dict[str, Any]]:
    """Every resource that the folder's kustomization names."""
    names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in names for one in yaml.safe_load_all((folder / name).read_text())]


def of_kind(folder: Path, *kinds: str) -> dict[str, Any]:
    [found] = [one for one in manifests(folder) if one["kind"] in kinds]
    return found


def pod(folder: Path) -> dict[str, Any]:
    """The specification of the workload's pods."""
    spec: dict[str, Any] = of_kind(folder, *WORKLOADS)["spec"]["template"]["spec"]
    return spec


def container(folder: Path) -> dict[str, Any]:
    [one] = pod(folder)["containers"]
    return dict(one)


def environment(folder: Path) -> dict[str, str]:
    """The service's settings, as the Secret and the pod give them."""
    secret: dict[str, str] = of_kind(folder, "Secret")["stringData"]
    return secret | {one["name"]: one["value"] for one in container(folder)["env"]}


def test_there_are_manifests_for_both_stores() -> None:
    assert [folder.name for folder in FOLDERS] == ["postgresql", "sqlite"]
    for folder in FOLDERS:
        assert {path.name for path in folder.iterdir()} == {
            "kustomization.yaml",
            "rabbitmq-itc.yaml",
        }


@every_folder
def test_the_schema_s_validator_finds_a_misspelt_field(folder: Path) -> None:
    """So that `make check` says something when it says nothing."""
    broken = copy.deepcopy(of_kind(folder, *WORKLOADS))
    validate(broken, "1.37", strict=True)
    [one] = broken["spec"]["template"]["spec"]["containers"]
    one["readynessProbe"] = one.pop("readinessProbe")
    with pytest.raises(ValidationError, match="readynessProbe"):
        validate(broken, "1.37", strict=True)


def test_make_check_validates_every_manifest() -> None:
    [line] = re.findall(r".*kubernetes-validate.*", (CHECKOUT / "Makefile").read_text())
    assert "--strict" in line
    assert line.endswith("deploy/kubernetes/*/rabbitmq-itc.yaml")


@every_folder
def test_its_settings_are_settings_and_valid(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ITC_{name.upper()}", raising=False)
    given = environment(folder)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for name in (name for name, value in given.items() if "change-me" in value):
        with pytest.raises(SettingsError, match=f"{name}: .*still the placeholder change-me"):
            load_settings()
        monkeypatch.setenv(name, given[name].replace("change-me", "secret"))
    settings = load_settings()
    assert unknown_variables(given) == []
    assert settings.database.parts.scheme == folder.name
    assert settings.shutdown_seconds < pod(folder)["terminationGracePeriodSeconds"]


@every_folder
def test_passwords_are_in_the_secret_alone(folder: Path) -> None:
    secret = of_kind(folder, "Secret")
    assert container(folder)["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    others = [one for one in manifests(folder) if one is not secret and one["kind"] != "Secret"]
    assert "change-me" not in yaml.safe_dump_all(others)
    assert all("change-me" in value for value in secret["stringData"].values() if "@" in value)


@every_folder
def test_a_service_s_variables_are_no_settings(folder: Path) -> None:
    """Kubernetes gives every pod NAME_PORT and NAME_SERVICE_HOST of each Service."""
    assert pod(folder)["enableServiceLinks"] is False


@every_folder
def test_it_runs_as_the_image_s_user_and_writes_to_volumes_alone(folder: Path) -> None:
    [user] = {*re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)} - {"0"}  # that installs
    assert pod(folder)["securityContext"]["runAsUser"] == int(user)
    assert pod(folder)["securityContext"]["runAsNonRoot"] is True
    assert container(folder)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {one["mountPath"]: one["name"] for one in container(folder)["volumeMounts"]}
    declared = [*pod(folder)["volumes"], *_claims(folder)]
    assert {*mounted.values()} == {one.get("name") or one["metadata"]["name"] for one in declared}
    assert "/tmp" in mounted
    written = [value for name, value in environment(folder).items() if name.endswith("_DIR")]
    assert written
    for place in written:  # in a folder of the volume, which the service creates for itself alone
        assert place not in mounted
        assert any(place.startswith(f"{path}/") for path in mounted)


def _claims(folder: Path) -> list[dict[str, Any]]:
    return list(of_kind(folder, *WORKLOADS)["spec"].get("volumeClaimTemplates", []))


@every_folder
def test_the_probes_ask_routes_of_the_service_s_port(folder: Path, routes: list[str]) -> None:
    one = container(folder)
    probes = {name: value["httpGet"] for name, value in one.items() if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert {probe["path"] for probe in probes.values()} <= {*routes}
    [port] = one["ports"]
    assert port["containerPort"] == load_settings().port
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    [served] = of_kind(folder, "Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert one["readinessProbe"]["timeoutSeconds"] > 5  # which the route may take


@every_folder
def test_what_selects_the_pods_selects_them(folder: Path) -> None:
    labels = of_kind(folder, *WORKLOADS)["spec"]["template"]["metadata"]["labels"]
    for one in manifests(folder):
        selector = one["spec"].get("selector") if "spec" in one else None
        if selector is not None:
            assert selector.get("matchLabels", selector) == labels, one["kind"]


@every_folder
def test_the_network_lets_through_what_the_settings_name_and_clients_of_the_namespace(
    folder: Path,
) -> None:
    policy = of_kind(folder, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == {"matchLabels": of_kind(folder, "Service")["spec"]["selector"]}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    [port] = container(folder)["ports"]
    assert policy["ingress"] == [
        {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": port["name"]}]}
    ]
    usual = {"amqp": 5672, "postgresql": 5432}
    urls = [urlsplit(each) for each in environment(folder).values() if "://" in each]
    named = {each.port or usual[each.scheme] for each in urls}
    [out] = policy["egress"]
    assert {each["port"] for each in out["ports"]} == {53, *named}


def test_one_service_owns_a_sqlite_file() -> None:
    workload = of_kind(KUBERNETES / "sqlite", *WORKLOADS)
    assert (workload["kind"], workload["spec"]["replicas"]) == ("StatefulSet", 1)
    [claim] = workload["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_services_on_postgresql_share_exports_and_are_replaced_one_by_one() -> None:
    folder = KUBERNETES / "postgresql"
    workload = of_kind(folder, *WORKLOADS)
    assert workload["spec"]["replicas"] > 1
    assert workload["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert of_kind(folder, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    claim = of_kind(folder, "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    [volume] = [one for one in pod(folder)["volumes"] if "persistentVolumeClaim" in one]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    [place] = [
        one["mountPath"]
        for one in container(folder)["volumeMounts"]
        if one["name"] == volume["name"]
    ]
    for name in ("ITC_EXPORT_DIR", "ITC_ARCHIVE_DIR"):
        assert environment(folder)[name].startswith(f"{place}/")


def test_the_spark_cluster_of_the_document_is_valid_and_runs_programs_of_the_image() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs/spark.md").read_text(), re.DOTALL)
    resources = list(yaml.safe_load_all(text))
    for each in resources:
        validate(each, "1.37", strict=True)
    pods = [one["spec"]["template"] for one in resources if one["kind"] == "Deployment"]
    programs = {one["spec"]["containers"][0]["command"][-1] for one in pods}
    assert {each.rpartition(".")[2] for each in programs} == {"Master", "Worker"}
    assert {each in (CHECKOUT / "tools/servers/spark.py").read_text() for each in programs} == {
        True
    }
    assert all(one["spec"]["enableServiceLinks"] is False for one in pods)
