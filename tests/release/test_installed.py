"""The wheels, where nothing else of ours is, and the plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = "Right: the chain has exactly the 21 events"


def run(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program that sees nothing of the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, words)], env=environment | more, cwd="/", capture_output=True, text=True
    )


def pythons() -> list[Path]:
    return [Path(sys.executable), *map(Path, os.environ.get("PYTHONS", "").split())]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("python", pythons(), ids=str)
def test_a_wheel_in_an_empty_environment_runs_the_demo(
    dist: Path, tmp_path: Path, python: Path
) -> None:
    assert run(python, "-m", "venv", tmp_path / "venv").returncode == 0
    programs = tmp_path / "venv" / "bin"
    [version] = {path.name for path in (tmp_path / "venv" / "lib").glob("python*")}
    [wheel] = dist.glob(f"*-cp{version[6:].replace('.', '')}-*.whl")
    done = run(programs / "pip", "install", "--quiet", wheel)
    assert done.returncode == 0, done.stderr
    assert "pyspark" not in run(programs / "pip", "list").stdout
    demo = run(programs / "rabbitmq-itc", "demo", DEMO_EXIT="1", XDG_STATE_HOME=str(tmp_path))
    assert (demo.returncode, RIGHT in demo.stdout) == (0, True), demo.stdout + demo.stderr


def test_the_plugin_is_for_the_versions_that_it_was_run_on(dist: Path, tmp_path: Path) -> None:
    [file] = dist.glob("*.ez")
    shutil.unpack_archive(file, tmp_path, "zip")
    [described] = tmp_path.glob("*/ebin/rabbitmq_itc.app")
    assert '{broker_version_requirements, ["3.10.0","4.0.0","4.3.0"]}' in described.read_text()
