"""The broker's plugin, built for a private node."""

from __future__ import annotations

import subprocess
from pathlib import Path

NAME = "rabbitmq_itc"
BUILD = Path(__file__).parents[1] / "broker_plugin" / "build"


def build(folder: Path) -> Path:
    """Build it into a folder and return its file; raises `CalledProcessError` if it cannot be."""
    done = subprocess.run([BUILD, folder], check=True, capture_output=True, text=True)
    return Path(done.stdout.splitlines()[-1])
