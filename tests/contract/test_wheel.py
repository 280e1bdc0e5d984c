"""An installed service has its migrations and its dashboard with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("itc", "model", "app", "spark_jobs", "statements", "web", "alembic", "vendor")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def _run(*words: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, far from the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
    for name in FILES:
        shutil.copy(CHECKOUT / name, source / name)
    built = source / "built"
    _run(
        *("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
        *("--wheel-dir", built, source),
        cwd=source,
    )
    [wheel] = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_every_migration_is_in_the_wheel(installed: Path) -> None:
    there = {path.name for path in (installed / "app/store/migrations/versions").glob("*.py")}
    assert there == {path.name for path in (CHECKOUT / "alembic/versions").glob("*.py")}


def test_a_database_is_migrated_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    program = (
        "import asyncio, app.store, app.main\n"
        f"assert app.__file__.startswith({str(installed)!r}), app.__file__\n"
        f"state = asyncio.run(app.store.migrate('sqlite:///{tmp_path}/itc.db'))\n"
        "print(state.found, app.main.web_folder())"
    )
    said = _run("-c", program, cwd=tmp_path, PYTHONPATH=str(installed))
    assert said == f"None {installed / 'app' / 'web'}\n"
    assert (tmp_path / "itc.db").exists()
