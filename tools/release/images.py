"""What both container images are built from, as one archive that ``docker build`` reads."""

from __future__ import annotations

from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from tools.release.commit import Commit, ReleaseError, files_below

RECIPE = "Dockerfile"


def pack(commit: Commit, folder: Path) -> None:
    """Write the archive, whose labels name the commit, and a compose file that takes its image."""
    labels = {
        "VERSION=unreleased": f"VERSION={commit.version}",
        "REVISION=unknown": f"REVISION={commit.hash}",
        "CREATED=1970-01-01T00:00:00Z": f"CREATED={_time(commit)}",
    }
    recipe = (commit.source / RECIPE).read_text()
    for unknown, known in labels.items():
        recipe = recipe.replace(unknown, known)
    files: dict[str, bytes | Path] = {
        name: path for name, path in files_below(commit.source).items() if _is_part(commit, name)
    }
    name = f"rabbitmq-itc-{commit.version}"
    commit.pack(folder / f"{name}-container.tar.gz", "", files | {RECIPE: recipe.encode()})
    (folder / f"{name}-compose.yaml").write_text(_compose(commit))


def _compose(commit: Commit) -> str:
    """The compose file where the image comes from a registry: nothing of the checkout is needed.

    But for its monitoring, which mounts files of deploy/.
    """
    text = (commit.source / "compose.yaml").read_text()
    built = "    build: .\n    image: rabbitmq-itc\n"
    if built not in text:
        raise ReleaseError("compose.yaml builds its image in another way than `build: .`")
    return text.replace(built, f"    image: rabbitmq-itc:{commit.version}-spark\n")


def _is_part(commit: Commit, name: str) -> bool:
    """Tell whether .dockerignore admits a file, by its kinds of lines: ``!top`` and ``**/name``."""
    lines = (commit.source / ".dockerignore").read_text().splitlines()
    if any(
        fnmatch(part, line[3:]) for line in lines if line[:3] == "**/" for part in name.split("/")
    ):
        return False
    return f"!{name.partition('/')[0]}" in lines


def _time(commit: Commit) -> str:
    return datetime.fromtimestamp(commit.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
