"""The installer on machines that the tests make: what it says first, shows meanwhile and leaves."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.terminal import interruptible
from tools.servers.processes import wait_until

ROOT = Path(__file__).parents[2]
COPIED = (
    *(f"tools/{name}" for name in ("install", "as_root.sh", "services.sh")),
    *(f"tools/{name}" for name in ("progress.sh", "prerequisites.sh")),
    *("pyproject.toml", "setup.py", "web/vendor/package.json", "web/vendor/package-lock.json"),
    *(f"requirements{name}.lock" for name in ("", "-spark", "-build", "-dev")),
    *("itc/_core.c", "app/broker/_wire.pyx"),
)

# A Python that makes environments with a Python like itself. Its pip leaves something in the
# temporary folder, as pip does while it works, and then does what the test wants.
PYTHON = """
case "$*" in
    "-m venv"*)
        mkdir -p .venv/bin && cp "$0" .venv/bin/python
        echo "#!$PWD/.venv/bin/python" >.venv/bin/pip ;;
    *"pip --retries"*) echo "asked" >>"$PIP_CALLS"; {index} ;;
    *"pip install"*)
        touch web/vendor/preact.js
        mkdir "$TMPDIR/pip-unpack-$$"
        echo "installed" >>"$PIP_CALLS"
        echo "Collecting numpy"
        {install} ;;
    *) {fits} ;;
esac
"""
# A Java that keeps a folder for its performance data, unless it is told not to.
JAVA = """
case "$*" in *-XX:-UsePerfData*) ;; *) mkdir "$TMPDIR/hsperfdata_root" ;; esac
echo 'openjdk version "17.0.1"' >&2
"""
DF = "echo header; echo 'disk 1 1 {free} 1% /'"


@dataclass
class Machine:
    """A checkout, and the programs that come first on its PATH."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def has(self, name: str, script: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def has_python(self, fits: str = "exit 0", index: str = ":", install: str = ":") -> None:
        self.has("python3", PYTHON.format(fits=fits, index=index, install=install))

    @property
    def pip_calls(self) -> list[str]:
        calls = self.folder / "pip-calls"
        return calls.read_text().split() if calls.exists() else []

    def start(self, **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["tools/install", "runtime"],
            cwd=self.folder / "checkout",
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for all of a group
            preexec_fn=interruptible,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
        )

    def install(self) -> subprocess.CompletedProcess[str]:
        process = self.start()
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess([], process.returncode, out, err)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with everything but the Python packages."""
    made = Machine(tmp_path)
    for name in COPIED:
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    for folder in ("bin", "tmp"):
        (tmp_path / folder).mkdir()
    made.environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TMPDIR": str(made.temporary),
        "PYTHON": str(tmp_path / "bin" / "python3"),
        "RABBITMQ_SCRIPTS_DIR": "/nowhere",  # there is a RabbitMQ
        "PROGRESS_SECONDS": "0.05",
        "PIP_CALLS": str(tmp_path / "pip-calls"),
        "POLICY_RC_D": str(tmp_path / "policy-rc.d"),
        "TERM": "xterm",
    }
    made.has("java", JAVA)
    made.has("ps", ":")
    made.has("df", DF.format(free=99_000))
    made.has_python()
    yield made
    assert not (tmp_path / "policy-rc.d").exists()


def test_it_says_first_how_much_it_downloads_and_then_is_silent(machine: Machine) -> None:
    first, second = machine.install(), machine.install()
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[0] == (
        "tools/install: the first time it downloads about 650 MB of Python packages, "
        "which takes minutes"
    )
    assert any(line.startswith("tools/install: installing Python packages") for line in lines)
    assert lines[-1].startswith("tools/install: building this checkout, with the dashboard's libr")
    assert machine.pip_calls == ["asked", "installed", "installed"]
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_too_little_disk_is_said_before_anything_is_downloaded(machine: Machine) -> None:
    machine.has("df", DF.format(free=900))
    done = machine.install()
    assert done.returncode == 1
    assert "MB stay) needs " in done.stderr
    assert f" MB of disk at {machine.folder}/checkout, where 900 MB are free" in done.stderr
    assert machine.pip_calls == []
    assert not (machine.folder / "checkout" / ".venv").exists()


def test_an_old_python_is_said_before_anything_is_downloaded(machine: Machine) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        machine.has(name, "exit 1")
    machine.environment["PATH"] = str(machine.folder / "bin")  # no other Python
    for name in ("bash", "env", "dirname", "mkdir", "flock", "rm", "sed", "sort", "head", "cat"):
        machine.has(name, f'exec {shutil.which(name)} "$@"')
    machine.has("apt-cache", "echo 'python3:'; echo '  Candidate: 3.9.2-3'")
    machine.has("apt-get", f"touch {machine.folder}/apt-was-run")
    # /usr/bin/python3 is looked for by its path: tell the installer that it does not fit either.
    script = machine.folder / "checkout" / "tools" / "install"
    script.write_text(script.read_text().replace(" /usr/bin/python3 ", " "))

    done = machine.install()

    assert done.returncode == 1
    assert "Python 3.11 or newer is needed, and apt has 3.9: set PYTHON to another" in done.stderr
    assert not (machine.folder / "apt-was-run").exists()


def test_a_network_that_is_away_is_said_before_the_large_download(machine: Machine) -> None:
    machine.has_python(index="echo 'no route'; exit 1")
    done = machine.install()
    assert done.returncode == 1
    assert "no route" in done.stderr
    assert "pip cannot get packages: is there a network?" in done.stderr
    assert machine.pip_calls == ["asked"]
    assert list(machine.temporary.iterdir()) == []


def test_lines_show_that_it_is_at_work_where_there_is_no_terminal(machine: Machine) -> None:
    gate = machine.folder / "gate"
    machine.has_python(install=f"until [ -e {gate} ]; do sleep 0.02; done")
    process = machine.start()
    assert process.stdout
    try:
        shown = next(line for line in process.stdout if "Collecting numpy" in line)
    finally:
        gate.touch()
        process.communicate(timeout=60)
    said = r"tools/install: installing Python packages into \.venv \(\d+ s\) Collecting numpy\n"
    assert re.fullmatch(said, shown)


def test_one_line_lives_on_a_terminal(machine: Machine) -> None:
    gate = machine.folder / "gate"
    machine.has_python(install=f"until [ -e {gate} ]; do sleep 0.02; done")
    ours, theirs = pty.openpty()
    process = machine.start(stdout=theirs)
    os.close(theirs)
    said = b""
    try:
        while said.count(b"Collecting numpy") < 2:
            said += os.read(ours, 1000)
    finally:
        gate.touch()
        process.communicate(timeout=60)
        os.close(ours)
    written_over = said.split(b"into .venv\r\n", 1)[1]
    assert b"\n" not in written_over
    assert written_over.count(b"\r\x1b[K") >= 2


@pytest.mark.parametrize(("install", "code"), [(":", 0), ("echo no wheel; exit 1", 1)])
def test_nothing_stays_in_the_temporary_folder(machine: Machine, install: str, code: int) -> None:
    machine.has_python(install=install)
    done = machine.install()
    assert done.returncode == code, done.stderr
    assert "installed" in machine.pip_calls
    assert list(machine.temporary.iterdir()) == []
    assert not (machine.folder / "checkout" / "var" / "install-tmp").exists()


def test_a_quick_command_does_not_end_the_installer_s_work(tmp_path: Path) -> None:
    script = (
        "set -euo pipefail; source tools/progress.sh; label=x log=$1/log; trap 'rm $1/needed' EXIT;"
        "touch $1/needed; for _ in {1..100}; do run true; test -e $1/needed || exit 3; done"
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_in_the_temporary_folder_when_it_is_ended(
    machine: Machine, number: signal.Signals
) -> None:
    machine.has_python(install="exec sleep 300")
    process = machine.start()
    wait_until(lambda: "installed" in machine.pip_calls, 60, "pip at work")
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode in (130, -number)
    assert list(machine.temporary.iterdir()) == []
    machine.has_python()
    (machine.folder / "checkout" / ".venv" / "bin" / "python").unlink()
    assert machine.install().returncode == 0
    assert not (machine.folder / "checkout" / "var" / "install-tmp").exists()


# Says the sizes of what it would install, and then does it where the policy forbids services.
APT_GET = """
case "$*" in
    *--assume-no*) echo "Need to get 91.4 MB/117 MB of archives."; exit 1 ;;
    *" install "*)
        [ -e "$POLICY_RC_D" ] || exit 9
        case "$JAVA_TOOL_OPTIONS" in *-UsePerfData*) ;; *) mkdir "$TMPDIR/hsperfdata" ;; esac
        echo "Unpacking openjdk-17-jre-headless"
        {install} ;;
esac
"""
NEW_JAVA = """printf '%s\\n' '#!/bin/sh' 'echo version \\"17\\" >&2' >"{java}" """


@pytest.fixture
def without_java(machine: Machine) -> Machine:
    machine.has("id", "echo 0")
    machine.has("java", "exit 1")
    machine.has("apt-cache", "echo 'openjdk:'; echo '  Candidate: 17.0.1'")
    return machine


def test_debian_s_packages_come_with_their_size_and_start_nothing(without_java: Machine) -> None:
    new_java = NEW_JAVA.format(java=without_java.folder / "bin" / "java")
    without_java.has("apt-get", APT_GET.format(install=new_java))
    done = without_java.install()
    assert done.returncode == 0, done.stderr
    assert "installing with apt: openjdk-17-jre-headless (91.4 MB)\n" in done.stdout
    assert "650 MB of Python packages and up to 155 MB of Debian's" in done.stdout
    assert list(without_java.temporary.iterdir()) == []
    assert not (without_java.folder / "policy-rc.d").exists()


def test_what_builds_the_compiled_parts_comes_with_the_service(machine: Machine) -> None:
    machine.has_python(fits='case "$*" in *Python.h*) exit 1 ;; esac')
    machine.has("id", "echo 0")
    machine.has("apt-cache", "echo 'python3-dev:'; echo '  Candidate: 3.11.2'")
    machine.has("apt-get", APT_GET.format(install=":"))
    done = machine.install()
    assert done.returncode == 0, done.stderr
    assert "installing with apt: python3-dev (91.4 MB)\n" in done.stdout


def test_an_apt_that_fails_leaves_no_policy_behind(without_java: Machine) -> None:
    without_java.has("apt-get", APT_GET.format(install="echo 'no such file'; exit 100"))
    done = without_java.install()
    assert done.returncode == 1
    assert "| no such file" in done.stderr
    assert "apt-get install openjdk-17-jre-headless failed" in done.stderr
    assert not (without_java.folder / "policy-rc.d").exists()
    assert list(without_java.temporary.iterdir()) == []


def test_one_who_ends_apt_leaves_no_policy_behind(without_java: Machine) -> None:
    started = without_java.folder / "started"
    without_java.has("apt-get", APT_GET.format(install=f"touch {started}; exec sleep 300"))
    process = without_java.start()
    wait_until(started.exists, 60, "apt at work")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert not (without_java.folder / "policy-rc.d").exists()
