"""What pyproject.toml cannot say: the wheel holds two folders of the checkout inside ``app``.

The dashboard and the migrations stand at the top of the checkout, where their tools look for them,
and are no Python packages. An installed service finds them inside its own package.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

INSIDE = {"web": "app/web", "alembic": "app/store/migrations"}


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


setup(cmdclass={"build_py": BuildWithFolders})
