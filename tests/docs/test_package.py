"""The wheel, installed as a user would: in an environment of its own, far from the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx
import pytest

from tests.docs.documents import CHECKOUT
from tools.servers import Child, free_port

SOURCES = ("itc", "model", "app", "spark_jobs", "statements", "web", "alembic", "vendor")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def _pip(*words: object) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # PYTHONPATH, which Spark's tests set, would show pip the checkout as installed already.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*pip, *map(str, words)], capture_output=True, text=True, timeout=120, cwd="/", env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's folder. The service's own dependencies are borrowed from ours."""
    folder = tmp_path_factory.mktemp("package")
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in SOURCES:
        shutil.copytree(CHECKOUT / name, folder / "source" / name, ignore=ignored)
    for name in FILES:
        shutil.copy(CHECKOUT / name, folder / "source" / name)
    offline = ("--no-deps", "--no-index")
    _pip("wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, folder / "source")
    shutil.rmtree(folder / "source")

    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    [packages] = environment.glob("lib/python*/site-packages")
    # A path in a .pth file adds what is there, but not that folder's own .pth files: the
    # checkout, installed in place there, stays out.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    [wheel] = folder.glob("*.whl")
    _pip("--python", environment / "bin" / "python", "install", *offline, wheel)
    return environment


def test_the_installed_service_migrates_and_serves_the_dashboard(
    installed: Path, tmp_path: Path
) -> None:
    port = free_port()
    # No PYTHONPATH: it would bring the checkout in. No broker: the service waits for one.
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    service = Child(
        "the installed rabbitmq-itc",
        [installed / "bin" / "rabbitmq-itc", "serve"],
        log=tmp_path / "log",
        cwd=tmp_path,
        env={
            **kept,
            "ITC_AUTH": "none",
            "ITC_PORT": str(port),
            "ITC_DATA_DIR": str(tmp_path / "data"),
            "ITC_AMQP_URL": "amqp://guest:guest@127.0.0.1:1",
            "ITC_MANAGEMENT_URL": "http://127.0.0.1:1",
        },
    )
    http = httpx.Client(base_url=f"http://127.0.0.1:{port}")

    def lives() -> bool:
        try:
            return http.get("/health/live").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        service.wait_until(lives, 90, "answering")
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
    finally:
        http.close()
        service.stop()
    assert (tmp_path / "data" / "itc.db").exists()


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


def test_a_changed_directive_makes_the_sources_anew(tmp_path: Path) -> None:
    program = (CHECKOUT / "setup.py").read_text()
    made = []
    for said in ("False", "True"):
        changed = program.replace('"binding": False', f'"binding": {said}')
        done = _build(changed, tmp_path, "true")
        assert done.returncode == 0, done.stderr
        made.append({file: file.read_text() for file in tmp_path.glob("made/app/**/*.c")})
    before, after = made
    assert len(before) == 3
    assert [file for file in before if before[file] == after[file]] == []
