"""The composition root: the only place that names concrete parts."""

from __future__ import annotations

from pathlib import Path


def web_folder() -> Path | None:
    """The dashboard's files: beside the package in a checkout, inside it in a wheel."""
    here = Path(__file__).parent
    for folder in (here / "web", here.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    return None
