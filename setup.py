"""What pyproject.toml cannot say: two folders inside ``app``, and what is compiled.

The dashboard and the migrations stand at the top of the checkout, where their tools look for them,
and are no Python packages; an installed service finds them inside its own package.
"""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

if find_spec("Cython") is None:  # setuptools would only find its options odd
    sys.exit(
        "Cython is missing, which compiles parts of this package: install what [build-system] in "
        "pyproject.toml requires, or leave --no-build-isolation out"
    )

INSIDE = {"web": "app/web", "alembic": "app/store/migrations"}
BLAKE2 = "vendor/blake2"
COMPILED = {
    "itc/_core.c": ["itc/_trees.h"],
    "app/broker/_wire.pyx": [],
    "app/tracker/_memories.pyx": [],
    "app/tracker/_names.pyx": [
        f"{BLAKE2}/blake2b-ref.c",
        f"{BLAKE2}/blake2.h",
        f"{BLAKE2}/blake2-impl.h",
    ],
}
# Functions like Python's own, and no checks of what the types already say.
CYTHON = {
    "always_allow_keywords": False,
    "auto_pickle": False,
    "binding": False,
    "initializedcheck": False,
    "language_level": 3,
    "wraparound": False,
}


class BuildWithFolders(build_py):
    """Copies the folders beside the modules, but not for an editable install."""

    def run(self) -> None:
        """Build as usual, then add the folders."""
        super().run()
        if self.editable_mode:
            return
        for source, target in INSIDE.items():
            shutil.copytree(
                source,
                Path(self.build_lib) / target,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )


setup(
    cmdclass={"build_py": BuildWithFolders},
    ext_modules=[
        Extension(
            source.partition(".")[0].replace("/", "."),
            [source],
            depends=included,
            include_dirs=["vendor"],
        )
        for source, included in COMPILED.items()
    ],
    # All anew each time: Cython looks at its sources' times only, not whether directives changed.
    options={
        "build_ext": {"cython_c_in_temp": True, "cython_directives": CYTHON, "force": True},
    },
)
