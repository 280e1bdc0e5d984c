"""The units and scripts under deploy/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.conftest import Installation
from tests.docs.documents import CHECKOUT
from tools.demo.pipeline import DEAD

DEPLOY = CHECKOUT / "deploy"
UNITS = [*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units with programs and users that this machine has: systemd looks for them."""
    copies = []
    for unit in UNITS:
        text = re.sub(r"/opt/rabbitmq-itc/bin/[\w-]+", "/bin/true", unit.read_text())
        copy = tmp_path / unit.name
        copy.write_text(text.replace("=rabbitmq-itc\n", "=daemon\n"))
        copies.append(copy)
    return copies


def test_systemd_accepts_the_units(units: list[Path]) -> None:
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is not installed"
    checked = subprocess.run(
        [program, "verify", "--man=no", *map(str, units)], capture_output=True, text=True
    )
    said = [line for line in checked.stderr.splitlines() if "rabbitmq-itc" in line]
    assert (checked.returncode, said) == (0, [])


def test_each_unit_is_as_closed_as_the_other(units: list[Path]) -> None:
    exposed = {}
    for unit in units:
        if unit.suffix == ".service":
            rated = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", str(unit)],
                capture_output=True,
                text=True,
                env={**os.environ, "SYSTEMD_COLORS": "0"},
            )
            [level] = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", rated.stdout)
            exposed[unit.stem] = float(level)
    print(exposed)
    assert exposed["rabbitmq-itc-export"] <= exposed["rabbitmq-itc"] < 2


def test_each_dead_letter_is_exported_once(
    installation: Installation, traceable: str, tmp_path: Path
) -> None:
    installation.with_orders(traceable, "1003")
    script = f"export-chains {traceable} chains"

    first = installation.run(script, tmp_path, traceable)
    files = [path.name for path in (tmp_path / "chains").glob("*.jsonl")]
    again = installation.run(script, tmp_path, traceable)

    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    [name] = files
    text = (tmp_path / "chains" / name).read_text()
    # The publish, the delivery that was rejected, and the dead letter.
    assert ["1003-3" in line for line in text.splitlines()] == [True, True, True]
    assert again.stdout == ""


def test_quiet_dead_letters_are_passed_over(
    installation: Installation, traceable: str, tmp_path: Path
) -> None:
    installation.with_orders(traceable, "1004", quiet=[f"queue:{DEAD}"])
    done = installation.run(f"export-chains {traceable} chains", tmp_path, traceable)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in (tmp_path / "chains").iterdir()] == [".position"]


def test_chains_that_are_not_sound_are_exported_and_named(
    installation: Installation, traceable: str, tmp_path: Path
) -> None:
    installation.with_orders(traceable, "1005", participant="connection")
    done = installation.run(f"export-chains {traceable} chains", tmp_path, traceable)

    [file] = (tmp_path / "chains").glob("*.jsonl")
    assert done.returncode == 8, done.stderr
    assert f"{file.name} is not sound\n" in done.stderr
    assert (tmp_path / "chains" / ".position").read_text() == f"{file.stem.split('-')[-1]}\n"


def test_an_export_that_nobody_answers_ends_with_the_code_for_that(
    installation: Installation, traceable: str, tmp_path: Path
) -> None:
    done = installation.run(
        f"ITC_URL=http://127.0.0.1:1 export-chains {traceable} chains", tmp_path, traceable
    )
    assert done.returncode == 6
    assert not (tmp_path / "chains" / ".position").exists()
