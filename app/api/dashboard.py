"""The dashboard's files: a browser keeps them for good, and never mixes two versions in one page.

A page names its scripts, styles and pictures below ``-/VERSION/``, a digest of all files, and a
script comes with everything that it imports (`app.api.scripts`). Files at such an address never
change, so a browser asks for each once. A file of another version is not found: the page is older
than an upgrade, or comes from another service behind the same balancer during a rolling upgrade,
and a script of this version may not fit it. The page says so, and is loaded anew. Browsers ask
again each time for pages, and for a file by its plain name.

Only files are compressed, for browsers that accept it. An answer of the API may hold a secret
beside text that a stranger chose, and the length of the two compressed together gives the secret
away (BREACH). A compressed stream of events would wait for its buffer to fill.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

from app.api.routes.downloads import Download
from app.api.scripts import Scripts

# Text; fonts and pictures are compressed already.
_COMPRESSED = frozenset({".html", ".js", ".css", ".svg", ".md"})
_FOREVER = "public, max-age=31536000, immutable"
_VERSIONED = re.compile(r"-/([0-9a-f]{16})/(.+\.(?!html)\w+)")  # no page has a version
# References of a page: relative, so that it may be served below a prefix.
_REFERENCES = re.compile(rb'(?<= )(href|src)="([\w./-]+)"')
# Files kept in memory, in either form. The dashboard has about a hundred.
_CACHED_FILES = 512
# Headers about the bytes of the file.
_HELD_TO = frozenset({"range", "if-match", "if-unmodified-since"})

_NO_WEIGHT = re.compile(r"q\s*=\s*0(?:\.0*)?")


class Version(NamedTuple):
    """The files of the folder at one moment, and a digest of their names and contents."""

    digest: str
    files: Mapping[str, tuple[int, int]]  # by name: when it was changed (ns), and its size
    bundles: Mapping[str, bytes]


class Dashboard(StaticFiles):
    """The files of a folder. A change of one makes another version of all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)
        self._folder = folder.resolve()
        self._version = Version("", {}, {})

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """A file of the folder; ``docs`` is ``docs.html``."""
        return super().lookup_path("docs.html" if path == "docs" else path)

    async def get_response(self, path: str, scope: Scope) -> Response:
        match = _VERSIONED.fullmatch(path)
        if match is None:
            return await super().get_response(path, scope)
        digest, name = match.groups()
        response = await super().get_response(name, scope)
        stat, version = _stat_key((self._folder / name).stat()), self._version
        if digest != version.digest or version.files.get(name) != stat:
            version = self._current()
        if digest != version.digest:
            raise HTTPException(404)
        bundle = version.bundles.get(name)
        if bundle is not None:
            response = self._whole(bundle, name, {"etag": f'"{digest}"'}, scope)
        response.headers["cache-control"] = _FOREVER
        return response

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        content = _read(Path(full_path), *_stat_key(stat_result))
        name = Path(full_path).name
        if name.endswith(".html"):  # it changes with what it names
            digest = self._current().digest
            return self._whole(_page(content, digest), name, {"etag": f'"{digest}"'}, scope)
        file = Download(full_path, status_code=status_code, stat_result=stat_result)
        if _HELD_TO.isdisjoint(Headers(scope=scope)):
            headers = {name: file.headers[name] for name in ("etag", "last-modified")}
            return self._whole(content, name, headers, scope)
        return self._unless_known(file, scope)  # a part of a file is Download's business

    def _whole(self, content: bytes, name: str, headers: dict[str, str], scope: Scope) -> Response:
        """The answer with a whole file, from memory: a slow reader costs no descriptor."""
        accepted = Headers(scope=scope).get("accept-encoding", "")
        if Path(name).suffix in _COMPRESSED and takes_gzip(accepted):
            # Other bytes are another representation: they have an ETag of their own.
            tag = headers["etag"].removesuffix('"') + '-gzip"'
            content, headers = _gzip(content), headers | {"etag": tag, "content-encoding": "gzip"}
        elif "last-modified" in headers:  # not made of others
            headers = headers | {"accept-ranges": "bytes"}
        return self._unless_known(
            Response(content, 200, headers, guess_type(name)[0] or "text/plain"), scope
        )

    def _unless_known(self, response: Response, scope: Scope) -> Response:
        response.headers["vary"] = "accept-encoding"
        response.headers["cache-control"] = "no-cache"
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        return response

    def _current(self) -> Version:
        """The folder's present version; reads the files again if one changed."""
        paths = [Path(folder, name) for folder, _, names in os.walk(self._folder) for name in names]
        files = {str(path.relative_to(self._folder)): _stat_key(path.stat()) for path in paths}
        if files != self._version.files:
            contents = {name: _read(self._folder / name, *files[name]) for name in sorted(files)}
            digest, bundles = hashlib.sha256(), Scripts(contents).bundles
            for name, content in (contents | bundles).items():
                digest.update(f"{name}\0{len(content)}\0".encode() + content)
            self._version = Version(digest.hexdigest()[:16], files, bundles)
        return self._version


def takes_gzip(accepted: str) -> bool:
    """Tell whether a header ``Accept-Encoding`` lets gzip through (RFC 9110, 12.5.3).

    ``q=0`` forbids it, by its name or by ``*``, which stands for every coding not named.
    """
    weights: dict[str, bool] = {}
    for part in accepted.lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        forbidden = any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters)
        weights.setdefault(coding, not forbidden)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _stat_key(stat: os.stat_result) -> tuple[int, int]:
    """Time and size are for caches alone: a changed file has others."""
    return stat.st_mtime_ns, stat.st_size


@lru_cache(_CACHED_FILES)
def _read(path: Path, modified: int, size: int) -> bytes:
    return path.read_bytes()


@lru_cache(_CACHED_FILES)
def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


@lru_cache
def _page(content: bytes, digest: str) -> bytes:
    return _REFERENCES.sub(rb'\1="-/%b/\2"' % digest.encode(), content)
