"""What pyproject.toml cannot say: two folders inside ``app``, and what is in C.

The dashboard and the migrations stand at the top of the checkout, where their tools look for them,
and are no Python packages; an installed service finds them inside its own package.
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

INSIDE = {"web": "app/web", "alembic": "app/store/migrations"}
BLAKE2 = "vendor/blake2"
INCLUDED = {
    "itc._core": ["itc/_trees.h"],
    "app.tracker._names": [
        f"{BLAKE2}/blake2b-ref.c",
        f"{BLAKE2}/blake2.h",
        f"{BLAKE2}/blake2-impl.h",
    ],
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
            module,
            [f"{module.replace('.', '/')}.c"],
            depends=INCLUDED.get(module, []),
            include_dirs=["vendor"],
        )
        for module in (
            "itc._core",
            "app.broker._wire",
            "app.tracker._memories",
            "app.tracker._names",
        )
    ],
)
