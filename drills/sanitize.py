"""Runs the damaged messages of `drills.fuzz` through sanitized builds of what is compiled.

    python -m drills.sanitize [INPUTS]               200,000 by default

Builds the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer in a temporary
folder, and tries the inputs with them in a separate process. There Python allocates each object
from the system, so that a read beyond its end is noticed. The installed modules stay as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
)


def runtime() -> Path | None:
    """The sanitizer's library, which has to be loaded first; None if there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    command = [compiler, "-print-file-name=libasan.so"]
    found = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    return found if found.is_absolute() and header.is_file() else None


def sanitized(inputs: int) -> subprocess.CompletedProcess[str]:
    """Try this many inputs; the process's stderr and exit code say what is wrong."""
    library = runtime()
    if library is None:
        raise SystemExit("this needs gcc with its sanitizers, and Python's headers")
    with tempfile.TemporaryDirectory() as folder:
        _build(Path(folder))
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONMALLOC": "malloc",
            # What Python keeps until it exits is not a leak.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
        }
        command = [sys.executable, "-m", "drills.sanitize", folder, str(inputs)]
        return subprocess.run(
            command, env=environment, cwd=CHECKOUT, text=True, capture_output=True, check=False
        )


def _build(folder: Path) -> None:
    places = "--build-lib", folder, "--build-temp", folder / "made"
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *places],
        env={**os.environ, "CC": "gcc", "CFLAGS": " ".join(FLAGS)},
        cwd=CHECKOUT,
        check=True,
    )


def _load(folder: Path) -> None:
    """Put the sanitized modules in place of the installed ones, before those are loaded."""
    for place in sorted(folder.rglob("*.so")):
        module = str(place.relative_to(folder)).partition(".")[0].replace("/", ".")
        loader = ExtensionFileLoader(module, str(place))
        spec = spec_from_file_location(module, place, loader=loader)
        if spec is None or spec.loader is None:
            raise ImportError(str(place))
        sys.modules[module] = loaded = module_from_spec(spec)
        spec.loader.exec_module(loaded)


def main(inputs: int) -> int:
    """Try the inputs; returns how that ended."""
    ended = sanitized(inputs)
    print(ended.stdout, ended.stderr, sep="", end="")
    return ended.returncode


def attempt(folder: Path, inputs: int) -> int:
    """Try the inputs, in the separate process."""
    _load(folder)
    from app.broker import _wire
    from drills import fuzz

    if not str(_wire.__file__).startswith(str(folder)):
        raise SystemExit("the sanitized modules are not those that are used")
    return fuzz.main(inputs)


if __name__ == "__main__":
    *place, number = sys.argv[1:] or ["200000"]
    sys.exit(attempt(Path(*place), int(number)) if place else main(int(number)))
