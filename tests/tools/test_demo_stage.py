"""The demo's own broker has the plugin where that can be built, and runs without it elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.demo import stage
from tools.plugin import NAME

PROGRAMS = (
    *("bash", "cp", "dirname", "find", "ls", "mkdir", "mktemp", "paste", "realpath", "rm", "sed"),
    "sort",
)


@pytest.mark.parametrize("compiler", [("erlc",), ()])
def test_the_broker_has_the_plugin_where_the_compiler_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: tuple[str, ...]
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in (*PROGRAMS, "erl", *compiler):
        (programs / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(programs))
    broker = stage._private_broker(tmp_path)
    assert (NAME in broker._plugins) == bool(compiler)
    assert len([*tmp_path.glob("plugins/*.ez")]) == len(compiler)
