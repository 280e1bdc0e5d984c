"""The command line in processes of its own, forked from one that has imported it already."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from app.cli import main

_FORKS = multiprocessing.get_context("forkserver")
# Importing the command line takes as long as twenty of its commands.
_FORKS.set_forkserver_preload(["app.cli"])

OUT, ERR = 1, 2


async def completed(
    words: tuple[object, ...], env: dict[str, str], cwd: Path, patience: float
) -> tuple[int, str, str]:
    """Run a command to its end; gives its exit code and what it wrote."""
    with TemporaryDirectory() as folder:
        written = [Path(folder) / name for name in ("out", "err")]
        os.umask(mask := os.umask(0))
        process = _FORKS.Process(target=_run, args=([*map(str, words)], env, cwd, mask, written))
        process.start()
        await asyncio.to_thread(process.join, patience)
        code = process.exitcode
        if code is None:
            process.kill()
            raise TimeoutError(f"{words} has not ended after {patience:.0f} s")
        out, err = (path.read_text() for path in written)
        return code, out, err


def _run(words: list[str], env: dict[str, str], cwd: Path, mask: int, written: list[Path]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.umask(mask)
    for place, path in zip((OUT, ERR), written, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), place)
    sys.argv[1:] = words
    main()
