"""What `make check` looks at: beside the first tests rather than before them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.mark.timeout(900)  # types are read anew in a fresh clone, beside other tests
def test_code_container_files_and_manifests_pass_their_checks() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "check"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
