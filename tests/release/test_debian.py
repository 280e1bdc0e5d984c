"""The Debian packages, each in a bare root of its system: nothing is there but what it asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.test_installed import RIGHT

SYSTEMS = {"311": "bookworm", "313": "trixie"}
MOUNTS = ("proc", "dev", "sys")
HOME = "opt/rabbitmq-itc"


class Root:
    """A system in a folder, and what is run in it; its mounts end with each command."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder = folder
        assert os.getuid() == 0, "only root may make a root of a system"
        program = shutil.which("debootstrap")
        assert program, "debootstrap is not installed (Debian: apt-get install debootstrap)"
        command = [program, "--variant=minbase", system, folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a shell's command as root there."""
        mounts = "; ".join(f'mount --bind /{name} "$0/{name}"' for name in MOUNTS)
        inside = f'{mounts}; exec chroot "$0" /bin/sh -c "$1"'
        plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", inside, self.folder, command],
            env={**plain, "DEBIAN_FRONTEND": "noninteractive", **more},
            capture_output=True,
            text=True,
        )

    def done(self, command: str, **more: str) -> str:
        """The same; what it prints, where it must succeed."""
        done = self.run(command, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module", params=sorted(SYSTEMS))
def root(
    dist: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Root]:
    packages = [*dist.glob(f"*+py{request.param}_*.deb")]
    if not packages:
        pytest.skip("no package was built with that Python: PYTHONS=… make release")
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)  # it becomes / for users of all kinds
    root = Root(folder, SYSTEMS[request.param])
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")
    shutil.copy(packages[0], folder / "tmp/rabbitmq-itc.deb")
    root.done("apt-get install --yes --quiet --no-install-recommends /tmp/rabbitmq-itc.deb")
    yield root
    shutil.rmtree(folder)


def test_without_a_broker_s_programs_the_demo_says_so_in_a_sentence(root: Root) -> None:
    done = root.run("cd /tmp && rabbitmq-itc demo")
    assert done.returncode == 1
    assert done.stderr.startswith("demo: RabbitMQ is not installed"), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.timeout(600)
def test_with_them_it_runs(root: Root) -> None:
    root.done("apt-get install --yes --quiet --no-install-recommends rabbitmq-server")
    assert RIGHT in root.done("cd /tmp && rabbitmq-itc demo", DEMO_EXIT="1")


def test_each_command_has_a_page_and_the_shell_completes(root: Root) -> None:
    pages = {path.stem for path in (root.folder / "usr/share/man/man1").glob("rabbitmq-itc*")}
    assert {"rabbitmq-itc", "rabbitmq-itc-where", "rabbitmq-itc-trace-start"} <= pages
    page = (root.folder / "usr/share/man/man1/rabbitmq-itc-where.1").read_text()
    assert "\nrabbitmq-itc-where \\- Was a message ever here" in page
    assert "--require-complete" in page.replace("\\", "")
    completes = (
        ". /usr/share/bash-completion/completions/rabbitmq-itc; COMP_WORDS=(rabbitmq-itc whe);"
        ' COMP_CWORD=1; _rabbitmq_itc_completion rabbitmq-itc; echo "${COMPREPLY[@]}"'
    )
    assert root.done(f"bash -c '{completes}'").strip() == "where"


def test_its_files_are_as_a_service_s_must_be(root: Root) -> None:
    environment = root.folder / "etc/rabbitmq-itc/environment"
    assert environment.stat().st_mode & 0o777 == 0o600
    assert "nologin" in root.done("getent passwd rabbitmq-itc")
    unit = (root.folder / "usr/lib/systemd/system/rabbitmq-itc.service").read_text()
    program = unit.partition("ExecStart=")[2].split()[0]
    root.done(f"runuser -u rabbitmq-itc -- {program} --version")
    assert not root.done("dpkg --verify rabbitmq-itc")


def test_removal_leaves_what_an_operator_wrote_and_nothing_else(root: Root) -> None:
    environment = root.folder / "etc/rabbitmq-itc/environment"
    environment.write_text("ITC_PORT=15681\n")
    root.done("apt-get remove --yes --quiet rabbitmq-itc")
    assert environment.read_text() == "ITC_PORT=15681\n"
    assert not (root.folder / HOME).exists()
    root.done("apt-get purge --yes --quiet rabbitmq-itc")
    assert not environment.exists()
