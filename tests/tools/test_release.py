"""What `make release` is made of, without a build: `make release-check` tries the rest."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import time
import tomllib
from pathlib import Path

import pytest
import yaml

from tools.release import chart, images, sums
from tools.release.commit import CHECKOUT, Commit, ReleaseError, files_below

SECONDS = 1_700_000_000
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def commit(tmp_path: Path) -> Commit:
    """A commit whose files are those of this checkout that its artifacts are packed from."""
    made = Commit(tmp_path, "0" * 40, SECONDS, [])
    made.source.mkdir()
    for name in ("pyproject.toml", "Dockerfile", ".dockerignore", "compose.yaml", "deploy", "itc"):
        (made.source / name).symlink_to(CHECKOUT / name)
    return made


def test_an_archive_has_the_same_bytes_whenever_and_by_whom_its_files_were_written(
    commit: Commit, tmp_path: Path
) -> None:
    packed = []
    for number, mask in enumerate((0o022, 0o077)):
        before = os.umask(mask)
        folder = tmp_path / f"files{number}"
        (folder / "inside").mkdir(parents=True)
        for name in sorted(("b", "a", "inside/c"), reverse=bool(number)):
            (folder / name).write_text(name)
            os.utime(folder / name, (time.time() + number, number))
        (folder / "a").chmod(0o700)
        os.umask(before)
        packed.append(commit.pack(tmp_path / f"{number}.tar.gz", "top", files_below(folder)))
    first, second = (file.read_bytes() for file in packed)
    assert first == second
    with tarfile.open(packed[0]) as archive:
        entries = [(each.name, each.mode, each.mtime, each.uid) for each in archive]
    assert entries == [
        ("top/a", 0o755, SECONDS, 0),
        ("top/b", 0o644, SECONDS, 0),
        ("top/inside/c", 0o644, SECONDS, 0),
    ]


def test_sums_are_of_all_files_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tgz").write_bytes(b"a")
    sums.write(tmp_path)
    sums.write(tmp_path)  # of itself it has none
    command = ["sha256sum", "--check", "--strict", sums.FILE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a.tgz: OK\nb.whl: OK\n")
    (tmp_path / "b.whl").write_bytes(b"c")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1


def test_a_program_that_fails_is_named_with_its_last_lines(commit: Commit) -> None:
    with pytest.raises(ReleaseError, match=r"(?s)^sh -c .* ended with 3\n  no compiler$"):
        commit.run("sh", "-c", "echo no compiler >&2; exit 3")
    with pytest.raises(ReleaseError, match=r"^no-such-program: No such file"):
        commit.run("no-such-program")


def test_each_build_has_the_commit_s_time_and_no_path_of_this_machine(commit: Commit) -> None:
    printed = commit.run("sh", "-c", "echo $SOURCE_DATE_EPOCH $TZ; echo $CFLAGS")
    time_and_zone, flags = printed.splitlines()
    assert time_and_zone == f"{SECONDS} UTC"
    assert f"-ffile-prefix-map={commit.work}=." in flags


def test_the_container_archive_is_a_context_whose_recipe_names_the_commit(
    commit: Commit, tmp_path: Path
) -> None:
    images.pack(commit, tmp_path)
    with tarfile.open(tmp_path / f"rabbitmq-itc-{commit.version}-container.tar.gz") as archive:
        names = archive.getnames()
        recipe = archive.extractfile("Dockerfile")
        assert recipe is not None
        text = recipe.read().decode()
    assert "pyproject.toml" in names
    assert not [name for name in names if name.startswith("deploy/")], ".dockerignore leaves it out"
    [line] = re.findall(r"^ARG VERSION=.*$", text, re.MULTILINE)
    assert line == (
        f"ARG VERSION={commit.version} REVISION={commit.hash} CREATED=2023-11-14T22:13:20Z"
    )


def test_the_compose_file_takes_the_image_that_the_archive_makes(
    commit: Commit, tmp_path: Path
) -> None:
    images.pack(commit, tmp_path)
    [file] = tmp_path.glob("*-compose.yaml")
    ours = yaml.safe_load(file.read_text())["services"]["itc"]
    original = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())["services"]["itc"]
    assert original.pop("build") == "."
    assert ours == original | {"image": f"rabbitmq-itc:{commit.version}-spark"}


def test_the_chart_has_the_product_s_version_or_is_not_packed(
    commit: Commit, tmp_path: Path
) -> None:
    chart.pack(commit, tmp_path)
    with tarfile.open(tmp_path / f"rabbitmq-itc-{PYPROJECT['version']}.tgz") as archive:
        names = archive.getnames()
    assert {"rabbitmq-itc/Chart.yaml", "rabbitmq-itc/files/rabbitmq-itc.rules.yml"} <= {*names}
    (commit.source / "pyproject.toml").unlink()
    (commit.source / "pyproject.toml").write_text('[project]\nversion = "9.9.9"\n')
    with pytest.raises(ReleaseError, match=r"Chart\.yaml is not of version 9\.9\.9"):
        chart.pack(commit, tmp_path)
