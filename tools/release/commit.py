"""The commit that is released: a copy of its files, their time, and programs that work on them."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


class ReleaseError(Exception):
    """What keeps an artifact from being built."""


@dataclass(frozen=True)
class Commit:
    """Its files in ``source``, below a folder for what is made on the way."""

    work: Path
    hash: str
    seconds: int  # since 1970, UTC: the time of everything in its artifacts
    changes: list[str]  # files of the checkout that differ from it

    @classmethod
    def read(cls, work: Path) -> Commit:
        """Copy the last commit's files; raises `ReleaseError` outside a repository."""
        revision, seconds = _git("log", "-1", "--format=%H %ct").split()
        status = _git("status", "--porcelain", "--untracked-files=no").splitlines()
        commit = cls(work, revision, int(seconds), [line.split()[-1] for line in status])
        commit.source.mkdir(parents=True)
        _git("archive", "--output", str(work / "source.tar"), revision)
        with tarfile.open(work / "source.tar") as archive:
            archive.extractall(commit.source, filter="data")
        return commit

    @property
    def source(self) -> Path:
        """The folder of its files."""
        return self.work / "source"

    @property
    def version(self) -> str:
        """The product's version, as pyproject.toml has it."""
        text = (self.source / "pyproject.toml").read_text()
        return str(tomllib.loads(text)["project"]["version"])

    def run(self, *words: object, **more: str) -> str:
        """Run a program to which each build is alike; what it prints. Raises `ReleaseError`."""
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "SOURCE_DATE_EPOCH": str(self.seconds),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            # No paths of this machine: neither in what the compiler notes for debuggers nor else.
            "CFLAGS": f"-g0 -ffile-prefix-map={self.work}=.",
            "LDFLAGS": "-Wl,--build-id=none -s",
            **more,
        }
        return _run([*map(str, words)], self.source, environment)

    def pack(self, target: Path, top: str, files: Mapping[str, bytes | Path]) -> Path:
        """Write a .tar.gz of files below one folder, by name, without owners; return it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in sorted(files.items()):
                is_program = isinstance(content, Path) and os.access(content, os.X_OK)
                data = content.read_bytes() if isinstance(content, Path) else content
                entry = tarfile.TarInfo(f"{top}/{name}" if top else name)
                entry.size, entry.mtime = len(data), self.seconds
                entry.mode = 0o755 if is_program else 0o644
                archive.addfile(entry, io.BytesIO(data))
        # Without the file's name and the time of packing, which gzip would note.
        target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
        return target


def files_below(folder: Path) -> dict[str, Path]:
    """The files below a folder, by their names there."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path for path in paths}


def _git(*words: str) -> str:
    return _run(["git", *words], CHECKOUT, dict(os.environ))


def _run(words: list[str], cwd: Path, environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    except OSError as error:
        raise ReleaseError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise ReleaseError(
            "\n  ".join([f"{' '.join(words)[:200]} ended with {done.returncode}", *last])
        )
    return done.stdout
