"""The Helm chart, packed as Helm packs one."""

from __future__ import annotations

import re
from pathlib import Path

from tools.release.commit import Commit, ReleaseError, files_below


def pack(commit: Commit, folder: Path) -> None:
    """Write the chart's archive; raises `ReleaseError` unless it has the product's version."""
    chart = commit.source / "deploy" / "helm"
    text = (chart / "Chart.yaml").read_text()
    if re.findall(r"^(?:version|appVersion): (\S+)", text, re.MULTILINE) != [commit.version] * 2:
        raise ReleaseError(f"deploy/helm/Chart.yaml is not of version {commit.version}")
    name = f"rabbitmq-itc-{commit.version}.tgz"
    commit.pack(folder / name, "rabbitmq-itc", files_below(chart))
