"""A Debian package of a wheel with the packages that it needs, for the system of one Python.

    /opt/rabbitmq-itc/lib        the wheel's packages and those of the lock
    /opt/rabbitmq-itc/bin        the program, and what the nightly export calls
    /opt/rabbitmq-itc/extras     not there: for packages of Spark or MCP that an operator adds

Its files are of the commit's time and of nobody in particular, so that the same bytes come again.
"""

from __future__ import annotations

import os
import shutil
import stat
from hashlib import md5
from pathlib import Path

from tools.release.commit import Commit, files_below

NAME = "rabbitmq-itc"
# What pip notes of the machine that it ran on.
_OF_THE_BUILD = ("RECORD", "REQUESTED", "INSTALLER", "direct_url.json")


def package(commit: Commit, wheel: Path, python: Path, folder: Path) -> None:
    """Build the package for a Python's minor version.

    Raises `ReleaseError` where ``dpkg-deb`` or ``help2man`` is missing.
    """
    words = "import sys; print(f'3.{sys.version_info[1]} 3.{sys.version_info[1] + 1}')"
    series, following = commit.run(python, "-c", words).split()
    root = commit.work / f"debian-{series}"
    home = root / "opt" / NAME
    _install(commit, wheel, python, home / "lib")
    sources = commit.source / "deploy"
    programs = (sources / "debian" / NAME, sources / "export-chains")
    for program in programs:
        _copy(program, home / "bin" / program.name)
    for unit in (*sources.glob("*.service"), *sources.glob("*.timer")):
        _copy(unit, root / "usr/lib/systemd/system" / unit.name)
    _copy(sources / "debian" / "environment", root / "etc" / NAME / "environment")
    _copy(commit.source / "LICENSE", root / "usr/share/doc" / NAME / "copyright")
    _document(commit, python, home / "lib", root / "usr/share")
    _describe(commit, root, series, following)
    link = root / "usr/bin" / NAME  # not counted: it may lead to a file of this machine
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/opt/{NAME}/bin/{NAME}")
    _settle(commit, root)
    _pack(commit, root, folder)


def _install(commit: Commit, wheel: Path, python: Path, target: Path) -> None:
    options = ("--quiet", "--no-compile", "--disable-pip-version-check", "--target", target)
    lock = commit.source / "requirements.lock"
    commit.run(python, "-m", "pip", "install", *options, "--require-hashes", "-r", lock)
    commit.run(python, "-m", "pip", "install", *options, "--no-deps", "--no-index", wheel)
    shutil.rmtree(target / "bin")  # the first lines of these programs name this machine's Python
    for name in _OF_THE_BUILD:
        for file in target.glob(f"*.dist-info/{name}"):
            file.unlink()


# Writes for each command a program of its page's name, which prints the command's help as the
# command would, and prints the name and what the command does: help2man asks programs alone.
_PROGRAMS = """
import pathlib, shlex, sys
from app.cli import app
from typer.main import get_command
from typer.testing import CliRunner

def write(command, *words):
    program = pathlib.Path(sys.argv[1], "-".join(["rabbitmq-itc", *words]))
    text = CliRunner().invoke(app, [*words, "--help"], prog_name="rabbitmq-itc").output
    program.write_text(f"#!/bin/sh\\nprintf %s {shlex.quote(text)}\\n")
    program.chmod(0o755)
    print(program.name, (command.help or "").partition("\\n")[0].rstrip("."), sep="\\t")
    for name, each in getattr(command, "commands", {}).items():
        write(each, *words, name)

write(get_command(app))
"""


def _document(commit: Commit, python: Path, packages: Path, share: Path) -> None:
    """Write a page of the manual for the program and for each command, and bash's completion."""
    cache = str(commit.work / "bytecode")
    more = {"PYTHONPATH": str(packages), "PYTHONPYCACHEPREFIX": cache, "TYPER_USE_RICH": "0"}
    programs, pages = packages.parent / "help", share / "man/man1"
    programs.mkdir()
    pages.mkdir(parents=True)
    for line in commit.run(python, "-c", _PROGRAMS, programs, **more).splitlines():
        name, purpose = line.split("\t")
        options = ("--no-info", f"--version-string={commit.version}", f"--name={purpose}")
        commit.run("help2man", *options, f"--output={pages / name}.1", programs / name)
    shutil.rmtree(programs)
    completion = share / "bash-completion/completions" / NAME
    completion.parent.mkdir(parents=True)
    program = "from app.cli import app; app(prog_name='rabbitmq-itc')"
    completing = {"_RABBITMQ_ITC_COMPLETE": "source_bash"}
    completion.write_text(commit.run(python, "-c", program, **more, **completing))


def _describe(commit: Commit, root: Path, series: str, following: str) -> None:
    templates = commit.source / "deploy" / "debian"
    control = root / "DEBIAN"
    files = files_below(root)
    size = sum(file.stat().st_size for file in files.values())
    sums = "".join(
        f"{md5(file.read_bytes(), usedforsecurity=False).hexdigest()}  {name}\n"
        for name, file in sorted(files.items())
    )
    control.mkdir()
    for script in ("postinst", "prerm"):
        _copy(templates / script, control / script)
    (control / "md5sums").write_text(sums)
    (control / "conffiles").write_text(f"/etc/{NAME}/environment\n")
    values = {
        "version": commit.version,
        "python": series.replace(".", ""),
        "series": series,
        "next_series": following,
        "architecture": commit.run("dpkg", "--print-architecture").strip(),
        "kilobytes": -(-size // 1024),
    }
    (control / "control").write_text((templates / "control").read_text().format(**values))


def _settle(commit: Commit, root: Path) -> None:
    """Give every file the commit's time, and rights that do not hang on this machine's mask."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            program = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if program else 0o644)
        os.utime(path, (commit.seconds, commit.seconds), follow_symlinks=False)
    (root / "etc" / NAME / "environment").chmod(0o600)  # passwords go into it


def _pack(commit: Commit, root: Path, folder: Path) -> None:
    # In one thread: where xz cuts a file into parts hangs on the number of threads. Packed harder
    # than with 2, it takes four times as long for a tenth less.
    options = ("--root-owner-group", "--threads-max=1", "-Zxz", "-z2", "--build")
    commit.run("dpkg-deb", *options, root, folder)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
