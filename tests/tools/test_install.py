"""What the installer and its companions do to a machine, in roots that the tests make."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tools.servers.processes import Child, wait_until

ROOT = Path(__file__).parents[2]
SOURCED = f"set -eu; source {ROOT}/tools/as_root.sh; source {ROOT}/tools/services.sh; "
OURS = {"RABBITMQ_ITC_INSTALLS": "yes"}


def bash(script: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", SOURCED + script, "bash", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def asked(policy: Path, **environment: str) -> int:
    """What a package's script is told that asks whether it may start its service."""
    if not policy.exists():
        return 0
    command = [str(policy), "rabbitmq-server", "start"]
    return subprocess.run(command, env={**os.environ, **environment}, timeout=60).returncode


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy-rc.d"


def test_packages_that_the_installer_installs_start_no_service(policy: Path) -> None:
    script = 'forbid_services "$1"; without_services "$1" || echo "told $?"; allow_services "$1"'
    done = bash(script, policy)
    assert done.stdout == "told 101\n", done.stderr
    assert list(policy.parent.iterdir()) == []


@pytest.mark.parametrize("before", [None, 104])
def test_an_installer_that_is_killed_leaves_no_policy_behind(
    policy: Path, before: int | None
) -> None:
    if before is not None:
        policy.write_text(f"#!/bin/sh\nexit {before}\n")
        policy.chmod(0o755)
    killed = bash('forbid_services "$1"; kill -KILL $$', policy)
    assert killed.returncode == -signal.SIGKILL
    assert asked(policy, **OURS) == 101, "its apt may go on without it"
    assert asked(policy) == (before or 0)
    assert policy.exists() == (before is not None)
    assert asked(policy) == (before or 0)
    assert len(list(policy.parent.iterdir())) == (before is not None)


def test_others_go_by_the_policy_there_was_while_the_installer_runs(policy: Path) -> None:
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    script = 'forbid_services "$1"; "$1" x start || echo "told $?"; allow_services "$1"'
    assert bash(script, policy).stdout == "told 104\n"
    assert asked(policy) == 104


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A root with RabbitMQ's units in it, enabled as their packages' scripts do it."""
    if shutil.which("deb-systemd-helper") is None:
        pytest.fail("deb-systemd-helper is not installed: it comes with init-system-helpers")
    units = tmp_path / "lib" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit, target in (
        ("rabbitmq-server.service", "multi-user.target"),
        ("epmd.service", "multi-user.target"),
        ("epmd.socket", "sockets.target"),
    ):
        (units / unit).write_text(f"[Unit]\nDescription=x\n[Install]\nWantedBy={target}\n")
        done = subprocess.run(
            ["deb-systemd-helper", "enable", unit],
            env={
                **os.environ,
                "DPKG_ROOT": str(tmp_path),
                "DPKG_MAINTSCRIPT_PACKAGE": "rabbitmq-server",
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    return tmp_path


def links(root: Path) -> set[str]:
    return {link.name for link in (root / "etc/systemd/system").glob("*.wants/*")}


def test_no_service_starts_with_the_machine_after_an_installation(debian: Path) -> None:
    assert links(debian) == {"rabbitmq-server.service", "epmd.service", "epmd.socket"}
    done = bash("disable_services rabbitmq-server curl", DPKG_ROOT=str(debian))
    assert done.returncode == 0, done.stderr
    assert links(debian) == set()


def test_a_service_that_stays_enabled_is_an_error(debian: Path, tmp_path: Path) -> None:
    helper = tmp_path / "bin" / "deb-systemd-helper"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\n")
    helper.chmod(0o755)
    path = f"{helper.parent}:{os.environ['PATH']}"
    done = bash("disable_services rabbitmq-server", DPKG_ROOT=str(debian), PATH=path)
    assert done.returncode == 1
    assert "epmd.socket is still enabled: systemctl disable epmd.socket" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with something to clean."""
    folder = tmp_path / "check out"
    (folder / "tools").mkdir(parents=True)
    for name in ("clean", "as_root.sh"):
        shutil.copy(ROOT / "tools" / name, folder / "tools" / name)
    (folder / "var" / "rabbitmq4-sid" / "proc").mkdir(parents=True)
    (folder / "app" / "__pycache__").mkdir(parents=True)
    return folder


def cleaned(checkout: Path, mounts: str) -> subprocess.CompletedProcess[str]:
    table = checkout.parent / "mountinfo"
    table.write_text(mounts)
    environment = {**os.environ, "MOUNTINFO": str(table)}
    command = [str(checkout / "tools" / "clean")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_clean_removes_what_was_built(checkout: Path) -> None:
    done = cleaned(checkout, "21 1 8:1 / / rw,relatime - ext4 /dev/root rw\n")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in checkout.iterdir()} == {"app", "tools"}
    assert list((checkout / "app").iterdir()) == []


def test_clean_touches_nothing_while_something_is_mounted_here(checkout: Path) -> None:
    place = f"{checkout}/var/rabbitmq4-sid/proc".replace(" ", "\\040")
    done = cleaned(checkout, f"36 21 0:4 / {place} rw,relatime - proc proc rw\n")
    assert done.returncode == 1
    assert "var/rabbitmq4-sid/proc is mounted: umount it first" in done.stderr
    assert (checkout / "var/rabbitmq4-sid/proc").exists()
    assert (checkout / "app/__pycache__").exists()


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def maker(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """How a user, with sudo alone, has the system of RabbitMQ 4 made; debootstrap is missing."""
    programs = tmp_path / "bin"
    program(programs, "id", "echo 1000")
    program(programs, "sudo", f'echo "$*" >>{tmp_path}/asked; shift; exec "$@"')
    program(programs, "unshare", '[ "$1" = --mount ] || exit 0; shift; exec "$@"')
    path = f"{programs}:{os.environ['PATH']}"
    command = [str(ROOT / "tools" / "rabbitmq4"), "true"]
    return command, {"PATH": path, "RABBITMQ4_ROOT": str(tmp_path / "four")}


def test_a_user_makes_the_system_of_rabbitmq_4_through_sudo(
    tmp_path: Path, maker: tuple[list[str], dict[str, str]]
) -> None:
    program(tmp_path / "bin", "debootstrap", "echo E: no mirror; exit 1")
    command, environment = maker
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    # Once, so that whoever typed a password is not asked again when it is no longer valid.
    asked = (tmp_path / "asked").read_text().splitlines()
    asked = [" ".join(each.split()[:2]) for each in asked if each.startswith("-n ")]
    assert asked == ["-n true", "-n timeout"]
    assert done.returncode == 69, "make test-all goes on"
    assert "Debian's sid could not be installed: E: no mirror; see var/" in done.stderr


def test_what_is_in_a_folder_that_somebody_chose_for_rabbitmq_4_stays(
    tmp_path: Path, maker: tuple[list[str], dict[str, str]]
) -> None:
    program(tmp_path / "bin", "debootstrap", "echo it was downloaded for nothing; exit 1")
    kept = tmp_path / "four" / "kept"
    kept.parent.mkdir()
    kept.touch()
    command, environment = maker
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, kept.exists()) == (69, True)
    assert "not empty" in done.stderr


def test_nothing_goes_on_making_the_system_of_rabbitmq_4_when_its_run_is_ended(
    tmp_path: Path, maker: tuple[list[str], dict[str, str]]
) -> None:
    pid = tmp_path / "pid"
    program(
        tmp_path / "bin",
        "debootstrap",
        f"sleep 1000 & echo $! >{pid}.new; mv {pid}.new {pid}; wait",
    )
    command, environment = maker
    with subprocess.Popen(command, env=environment, start_new_session=True) as run:
        wait_until(pid.exists, 30, "it is being made")
        run.terminate()
    assert run.returncode == 130
    sleeper = Path("/proc") / pid.read_text().strip()
    wait_until(lambda: not sleeper.exists(), 30, "the end of all that made it")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A root file system whose RabbitMQ does nothing."""
    root = tmp_path / "four"
    for name in ("usr/sbin", "usr/lib/rabbitmq/bin", "bin", "dev", "proc", "tmp"):
        (root / name).mkdir(parents=True)
    for name in ("sh", "sleep"):
        found = shutil.which(name)
        assert found is not None
        shutil.copy(found, root / "bin" / name)
        needs = subprocess.run(["ldd", found], capture_output=True, text=True).stdout
        for word in needs.split():
            if word.startswith("/"):
                (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, root / word[1:])
    program(root / "usr" / "sbin", "rabbitmq-server", "exit 1")  # would change the user
    program(root / "usr" / "lib" / "rabbitmq" / "bin", "rabbitmq-server", "exec sleep 1000")
    return root


def running_in(root: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "root").readlink() == root:
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="whoever runs this test may not mount anything",
)
def test_a_program_of_rabbitmq_4_is_one_process_and_its_mounts_end_with_it(
    system: Path, tmp_path: Path
) -> None:
    child = Child(
        "tools/rabbitmq4",
        [ROOT / "tools" / "rabbitmq4", "rabbitmq-server"],
        log=tmp_path / "log",
        env={**os.environ, "RABBITMQ4_ROOT": str(system)},
    )
    try:
        child.wait_until(lambda: running_in(system) == [child.pid], 30, "running in the system")
        assert str(system) not in Path("/proc/self/mountinfo").read_text()
        assert list((system / "proc").iterdir()) == []
    finally:
        child.kill()
    wait_until(lambda: not running_in(system), 30, "the end of all that ran in it")
