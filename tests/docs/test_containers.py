"""compose.yaml and the Dockerfile, as far as they can be held to account without an engine.

The image's own steps are run: on the files that its context has, and then its command, as an
ordinary user, in an empty folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.docs.documents import CHECKOUT
from tools.plugin import NAME
from tools.servers import Broker, Child, free_port

COMPOSE = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())
CONTEXT = (CHECKOUT / ".dockerignore").read_text().splitlines()
STARTING_SECONDS = 90
ORDINARY = "daemon"  # a user that every system has


# ---- compose.yaml -----------------------------------------------------------------------------


def given(text: str) -> Any:
    """A config of compose.yaml as its program reads it, with the defaults for what is unset."""
    return yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))


def config(name: str) -> Any:
    return given(COMPOSE["configs"][name]["content"])


def mounted(service: str) -> dict[str, Path]:
    """What of the checkout is in a container, by its path there."""
    volumes = (one.split(":") for one in COMPOSE["services"][service]["volumes"])
    return {to: CHECKOUT / what for what, to, *_ in volumes if what.startswith("./")}


def files_in(service: str, pattern: str) -> list[str]:
    """The checkout's files that a container sees where the pattern says."""
    return [
        path.name
        for place, folder in mounted(service).items()
        for path in folder.iterdir()
        if fnmatch(f"{place}/{path.name}", pattern)
    ]


def test_only_who_asks_for_monitoring_gets_it() -> None:
    profiles = {name: one.get("profiles") for name, one in COMPOSE["services"].items()}
    assert [name for name, profile in profiles.items() if profile is None] == [
        "rabbitmq",
        "postgres",
        "itc",
    ]
    assert {*map(tuple, filter(None, profiles.values()))} == {("monitoring",)}


def test_every_port_is_on_the_loopback_interface() -> None:
    ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_images_are_named_by_tag_and_digest_but_for_our_own() -> None:
    files = [CHECKOUT / "compose.yaml", CHECKOUT / "Dockerfile", *(CHECKOUT / "deploy").rglob("*")]
    texts = [file.read_text() for file in files if file.is_file()]
    naming = r"^ *(?:image: |FROM |ARG PYTHON=)(\S+)"
    named = {each for text in texts for each in re.findall(naming, text, re.M)}
    ours = ("rabbitmq-itc", "$PYTHON", "{{", *STAGES)
    others = {each for each in named if not each.startswith(ours)}
    assert {one["image"] for one in COMPOSE["services"].values()} - others == {"rabbitmq-itc"}
    pinned = re.compile(r"[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}")
    assert [each for each in others if not pinned.fullmatch(each)] == []


def test_prometheus_scrapes_the_service_under_the_name_that_the_rules_have() -> None:
    asked = config("prometheus")
    [service] = [one for one in asked["scrape_configs"] if one["job_name"] == "rabbitmq-itc"]
    assert service["static_configs"] == [{"targets": ["itc:15680"]}]
    [pattern] = asked["rule_files"]
    [rules] = files_in("prometheus", pattern)
    assert 'up{job="rabbitmq-itc"}' in (CHECKOUT / "deploy" / "prometheus" / rules).read_text()


def test_no_password_is_on_a_command_line() -> None:
    """Whoever is on the machine can read command lines, those in containers as well."""
    manifests = [*(CHECKOUT / "deploy").rglob("*.yaml")]
    files = [CHECKOUT / "compose.yaml", *(one for one in manifests if "templates" not in one.parts)]
    documents = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    run = [line for document in documents for line in commands_in(document)]
    assert {"pg_isready", "--config"} <= {*run}
    secret = re.compile(r"PASS|SECRET|change-me|://\S*:\S*@", re.IGNORECASE)
    assert [word for word in run if secret.search(word)] == []
    docs = [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")]
    shell = [
        each
        for file in docs
        for each in re.findall(r"^```sh.*?^```", file.read_text(), re.M | re.S)
    ]
    run = re.findall(r"(?:docker|podman|kubectl)(?:\\\n|[^\n])*", "\n".join(shell))
    assert len(run) > 5
    assert [line for line in run if secret.search(line)] == []


def commands_in(value: Any) -> Iterator[str]:
    """The words of all commands that a document has, wherever they stand."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("command", "args", "entrypoint", "test"):
                yield from shlex.split(each) if isinstance(each, str) else map(str, each)
            else:
                yield from commands_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands_in(each)


def test_prometheus_has_a_user_of_its_own_with_nothing_but_the_tag(
    rabbit: Broker, tmp_path: Path
) -> None:
    one = COMPOSE["services"]["prometheus-user"]
    assert one["image"].startswith("curlimages/curl:")
    where = {
        "http://rabbitmq:15672": rabbit.management_url,
        "${RABBITMQ_USER:-admin}:${RABBITMQ_PASSWORD:-admin}": f"{rabbit.user}:{rabbit.password}",
    }
    [mount] = one["configs"]
    text = COMPOSE["configs"][mount["source"]]["content"]
    for written, here in where.items():
        text = text.replace(written, here)
    asked = tmp_path / "prometheus-user"
    asked.write_text(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    command = ["curl", *(part.replace(mount["target"], str(asked)) for part in one["command"])]
    ours = [each for each in config("prometheus")["scrape_configs"] if "basic_auth" in each]
    [(name, password)] = {tuple(each["basic_auth"].values()) for each in ours}
    try:
        for _ in range(2):  # it is run at every start
            subprocess.run(command, check=True)
        user = httpx2.get(f"{rabbit.management_url}/api/whoami", auth=(name, password)).json()
        permissions = rabbit.api("GET", "users", name, "permissions")
    finally:
        rabbit.delete_user(name)
    assert (user["name"], user["tags"], permissions) == ("prometheus", ["monitoring"], [])
    needed = COMPOSE["services"]["prometheus"]["depends_on"]
    assert needed == {"prometheus-user": {"condition": "service_completed_successfully"}}


def test_what_prometheus_and_grafana_name_are_services() -> None:
    targets = [
        target
        for one in config("prometheus")["scrape_configs"]
        for static in one["static_configs"]
        for target in static["targets"]
    ]
    [source] = config("grafana_datasource")["datasources"]
    hosts = {target.partition(":")[0] for target in targets} | {httpx2.URL(source["url"]).host}
    assert hosts == {"itc", "rabbitmq", "prometheus"}
    assert hosts <= COMPOSE["services"].keys()
    assert source["isDefault"], "which the dashboard takes"


BOARDS = ["rabbitmq-itc-queues.json", "rabbitmq-itc.json"]


def test_grafana_finds_the_dashboards() -> None:
    [provider] = config("grafana_dashboards")["providers"]
    assert files_in("grafana", f"{provider['options']['path']}/*.json") == BOARDS
    home = COMPOSE["services"]["grafana"]["environment"][
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    ]
    assert files_in("grafana", home) == ["rabbitmq-itc.json"]


def test_every_config_and_volume_is_declared_and_used() -> None:
    services = COMPOSE["services"].values()
    configs = {use["source"] for one in services for use in one.get("configs", [])}
    volumes = {use.partition(":")[0] for one in services for use in one.get("volumes", [])}
    assert configs == COMPOSE["configs"].keys()
    assert {name for name in volumes if not name.startswith(".")} == COMPOSE["volumes"].keys()


# ---- the Dockerfile ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """An instruction and the rest of its line, continuations joined; its stage counts from 0."""

    stage: int
    word: str
    text: str


def steps(file: str = "Dockerfile") -> list[Step]:
    lines = (CHECKOUT / file).read_text().splitlines()
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    found, stage = [], -1
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        found.append(Step(stage, word, rest))
    return found


STAGES = [step.text.partition(" AS ")[2] for step in steps() if step.word == "FROM"]


def of_stage(name: str) -> list[Step]:
    return [step for step in steps() if step.stage == STAGES.index(name)]


def the(word: str, stage: str = "itc") -> str:
    [found] = [step.text for step in of_stage(stage) if step.word == word]
    return found


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(the("ENV")))


def in_context(path: Path) -> bool:
    """Whether .dockerignore lets a path of the checkout through."""
    ignored = [line for line in CONTEXT if line.startswith("**/")]
    kept = {line[1:] for line in CONTEXT if line.startswith("!")}
    relative = path.relative_to(CHECKOUT)
    parts = [part for part in relative.parts if part != "__pycache__"]
    if len(parts) < len(relative.parts) or any(fnmatch(path.name, one[3:]) for one in ignored):
        return False
    return relative.parts[0] in kept


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that the image has the program in, after the steps of the Dockerfile.

    The locked packages are not downloaded anew: this environment lends its own.
    """
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python").write_text(f'#!/bin/sh\nexec {_interpreter()} "$@"\n')
    (programs / "python").chmod(0o755)
    folder = Path(tempfile.mkdtemp(prefix="itc-image-"))  # others may look in, unlike pytest's
    folder.chmod(0o755)
    try:
        for name in sorted({line[1:] for line in CONTEXT if line.startswith("!")}):
            source = CHECKOUT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=_left_out)
            else:
                shutil.copy(source, folder / name)
        for step in [*of_stage("packages"), *of_stage("build")]:
            if step.word != "RUN":
                continue
            if "apt-get" in step.text or "--require-hashes" in step.text:
                continue
            _carry_out(step.text, folder, programs)
            if "-m venv" in step.text:
                _lend_packages(folder)
        yield folder
    finally:
        shutil.rmtree(folder)


def _lend_packages(folder: Path) -> None:
    [packages] = folder.glob(".venv/lib/python*/site-packages")
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "lent.pth").write_text("\n".join(lent) + "\n")
    for old in packages.glob("setuptools*"):  # the lock has a newer one than Python brings
        shutil.rmtree(old)
    for part in [
        part for place in lent for part in Path(place).glob("[Cc]ython*") if part.is_dir()
    ]:
        shutil.copytree(part, packages / part.name)  # as its own: it is taken away again


def _interpreter() -> Path:
    """One like ours that an ordinary user may run: ours may be in somebody's home."""
    ours = Path(sys.executable).resolve()
    for candidate in (ours, Path(f"/usr/bin/python3.{sys.version_info.minor}")):
        if candidate.exists() and _anybody_may_enter(candidate):
            return candidate
    return ours


def _anybody_may_enter(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def _left_out(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not in_context(Path(folder) / name)}


def _carry_out(command: str, folder: Path, programs: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["PATH"] = f"{programs}:{env['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_what_is_copied_is_in_the_context() -> None:
    for step in steps():
        if step.word != "COPY" or step.text.startswith("--from="):
            continue
        *sources, _ = step.text.split()
        for source in sources:
            assert (CHECKOUT / source).exists(), source
            assert source == "." or in_context(CHECKOUT / source), f"{source} is in .dockerignore"
    for line in CONTEXT:
        assert not line.startswith("!") or (CHECKOUT / line[1:]).exists(), line


def test_a_stage_copies_from_one_that_there_is() -> None:
    copied = [step.text.split() for step in steps() if step.text.startswith("--from=")]
    service, jobs = copied
    place = the("WORKDIR", "packages")
    assert service == ["--from=build", place, place], "the environment's programs name their place"
    assert jobs[0] == "--from=spark"
    assert f"--prefix {jobs[1]} " in the("RUN", "spark")
    assert jobs[2] == f"{place}/.venv"


def test_both_images_run_as_the_same_user_and_say_what_they_are() -> None:
    assert [step.text for step in of_stage("itc-spark") if step.word == "USER"][-1] == the("USER")
    labels = dict(pair.split("=", 1) for pair in shlex.split(the("LABEL")))
    assert {name.rpartition(".")[2] for name in labels} == {
        *("title", "description", "licenses", "version", "revision", "created"),
    }
    arguments = dict(pair.split("=", 1) for pair in the("ARG").split())
    assert {value[1:] for value in labels.values() if value[0] == "$"} == arguments.keys()


def test_the_image_without_jobs_has_neither_spark_nor_java() -> None:
    texts = "\n".join(step.text for name in ("packages", "build", "itc") for step in of_stage(name))
    assert "spark.lock" not in texts
    assert "jre" not in texts


def test_the_image_s_steps_build_the_program(image: Path) -> None:
    assert (image / ".venv" / "bin" / "rabbitmq-itc").exists()
    assert [*image.glob("itc/_core*.so")], "the clock's core was not built"
    of_tracker = (f"tracker/_{name}" for name in ("copies", "memories", "names", "pass", "steps"))
    for module in ("broker/_wire", *of_tracker, "store/capture/_rows", "traces/runs/_loop"):
        assert [*image.glob(f"app/{module}*.so")], f"{module} was not built"
    assert not (image / "tests").exists()
    assert not [*image.glob(".venv/lib/python*/site-packages/[Cc]ython*")]


def test_the_broker_s_image_has_the_plugin_and_its_compose_file_enables_it(tmp_path: Path) -> None:
    more = yaml.safe_load((CHECKOUT / "deploy" / "plugin" / "compose.yaml").read_text())
    [broker] = more["services"].values()
    assert more["services"].keys() <= COMPOSE["services"].keys()
    enabled = more["configs"]["enabled_plugins"]["content"].strip("[].").split(",")
    before = COMPOSE["configs"]["enabled_plugins"]["content"].strip("[].").split(",")
    assert enabled == [*before, NAME]
    taken = (CHECKOUT / f"{broker['build']['dockerfile']}.dockerignore").read_text().split()
    made, place = "", ""
    for step in steps(broker["build"]["dockerfile"]):
        if step.word == "COPY" and step.stage == 0:
            source, to = step.text.split()
            assert f"!{source}" in taken
            copy = shutil.copytree if (CHECKOUT / source).is_dir() else shutil.copy
            copy(CHECKOUT / source, tmp_path / to)
        elif step.word == "RUN" and "broker_plugin" in step.text:
            made = step.text.split()[1]
            _carry_out(step.text.replace(made, f"{tmp_path}/made"), tmp_path, tmp_path)
        elif step.word == "COPY":
            *_, source, place = step.text.split()
            assert source == made
        elif step.stage == 1:
            assert step.text == COMPOSE["services"]["rabbitmq"]["image"], "the same broker"
    assert [file.suffix for file in (tmp_path / "made").iterdir()] == [".ez"]
    assert place == "/opt/rabbitmq/plugins", "where the image has its own"


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty folder of the user that the service runs as, as the image's volume is."""
    folder = Path(tempfile.mkdtemp(prefix="itc-home-"))
    if os.geteuid() == 0:
        shutil.chown(folder, ORDINARY)
    yield folder
    shutil.rmtree(folder)


def test_the_image_s_command_serves_as_an_ordinary_user_and_its_health_check_agrees(
    image: Path, home: Path, tmp_path: Path
) -> None:
    entry, command = json.loads(the("ENTRYPOINT")), json.loads(the("CMD"))
    assert entry == ["tini", "--", "rabbitmq-itc"]
    programs = image / ".venv" / "bin"
    port = free_port()
    environment = {
        **image_environment(),
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(home),
        "ITC_PORT": str(port),
        "ITC_DATA_DIR": str(home),
        "ITC_AMQP_URL": "amqp://guest:guest@127.0.0.1:1",
        "ITC_MANAGEMENT_URL": "http://127.0.0.1:1",
    }
    service = Child(
        "the image's command",
        [programs / entry[-1], *command],
        log=tmp_path / "log",
        cwd=home,
        env=environment,
        unix_user=ORDINARY if os.geteuid() == 0 else None,
    )
    try:
        service.wait_until(lambda: _is_healthy(environment, home), STARTING_SECONDS, "its health")
        assert httpx2.get(f"http://127.0.0.1:{port}/").status_code == 200
        assert httpx2.get(f"http://127.0.0.1:{port}/health/ready").status_code == 503
        written = {path.name: path.stat().st_uid for path in home.iterdir()}
        assert "itc.db" in written
        assert {*written.values()} == {home.stat().st_uid}
        assert home.stat().st_uid != 0
    finally:
        service.stop()


def _is_healthy(environment: dict[str, str], folder: Path) -> bool:
    """Whether the image's HEALTHCHECK says so."""
    _, _, command = the("HEALTHCHECK").partition("CMD ")
    words = json.loads(command)
    words[0] = shutil.which(words[0], path=environment["PATH"])
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, timeout=30)
    return done.returncode == 0
