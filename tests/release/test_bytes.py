"""One commit, one set of bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.conftest import CHECKOUT


def test_the_sums_are_those_of_all_files(dist: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    listed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert listed == {file.name for file in dist.iterdir()} - {"SHA256SUMS"}


@pytest.mark.timeout(3600)
def test_a_second_build_in_another_folder_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    subprocess.run([sys.executable, "-m", "tools.release", again], cwd=CHECKOUT, check=True)
    first, second = ((folder / "SHA256SUMS").read_text().split() for folder in (dist, again))
    assert dict(zip(first[1::2], first[::2], strict=True)) == dict(
        zip(second[1::2], second[::2], strict=True)
    )
