"""``python -m tools.release [FOLDER]``: builds all artifacts of the last commit into ``dist/``.

Wheels and Debian packages are built for this Python and for those that ``PYTHONS`` names, separated
by blanks. What the checkout has beyond its commit is no part of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release import chart, debian, images, packages, sums
from tools.release.commit import CHECKOUT, Commit, ReleaseError


def main(words: list[str]) -> int:
    """Build into a folder, in which nothing else remains; the exit code."""
    folder = Path(words[0] if words else CHECKOUT / "dist").resolve()
    pythons = [Path(sys.executable), *map(Path, os.environ.get("PYTHONS", "").split())]
    try:
        with TemporaryDirectory(prefix="itc-release-") as work:
            _build(Commit.read(Path(work)), folder, pythons)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _build(commit: Commit, folder: Path, pythons: list[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    archive = packages.source_archive(commit, folder)
    for python in pythons:
        wheel = packages.wheel(commit, archive, python, folder)
        debian.package(commit, wheel, python, folder)
    packages.plugin(commit, folder)
    packages.materials(commit, folder)
    chart.pack(commit, folder)
    images.pack(commit, folder)
    sums.write(folder)
    for line in (folder / sums.FILE).read_text().splitlines():
        print(line)
    if changes := commit.changes:
        print(f"not in it, as the commit lacks them: {', '.join(changes)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
