"""SHA-256 sums of the artifacts, as ``sha256sum --check`` reads them."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

FILE = "SHA256SUMS"


def write(folder: Path) -> None:
    """Write the sums of all files in a folder beside them."""
    files = sorted(file for file in folder.iterdir() if file.name != FILE)
    lines = (f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / FILE).write_text("".join(lines))
