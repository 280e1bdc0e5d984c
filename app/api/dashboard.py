"""The dashboard's files, as they are in the folder.

Only they are compressed, for browsers that accept it. An answer of the API may hold a secret beside
text that a stranger chose, and the length of the two compressed together gives the secret away
(BREACH). A compressed stream of events would wait for its buffer to fill.
"""

from __future__ import annotations

import gzip
import os
import re
from functools import lru_cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

from app.api.routes.downloads import Download

# What is text; fonts and pictures are compressed already.
_COMPRESSED = frozenset({".html", ".js", ".css", ".svg", ".md"})
# How many files are kept in memory, in either form. The dashboard has about a hundred.
_KEPT = 512
# Headers that speak of the file's own bytes.
_HELD_TO = frozenset({"range", "if-match", "if-unmodified-since"})

_NO_WEIGHT = re.compile(r"q\s*=\s*0(?:\.0*)?")


class Dashboard(StaticFiles):
    """Static files that a browser keeps, and asks about before it uses them again.

    They carry no version in their names, so nothing else keeps a page and its modules together
    over an upgrade.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """A file of the folder; ``docs`` is ``docs.html``."""
        return super().lookup_path("docs.html" if path == "docs" else path)

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        asked, path = Headers(scope=scope), Path(full_path)
        changed = stat_result.st_mtime_ns, stat_result.st_size
        response: Response = Download(full_path, status_code=status_code, stat_result=stat_result)
        if not _HELD_TO.isdisjoint(asked):
            pass  # a part of the file, or the file as it was: Download's business
        elif path.suffix in _COMPRESSED and takes_gzip(asked.get("accept-encoding", "")):
            # Other bytes are another representation: they have an ETag of their own.
            tag = response.headers["etag"].removesuffix('"') + '-gzip"'
            headers = {"etag": tag, "content-encoding": "gzip"}
            response = _from_memory(response, _packed(path, *changed), headers)
        else:  # a slow reader costs no descriptor of the file beside its own
            headers = {name: response.headers[name] for name in ("etag", "accept-ranges")}
            response = _from_memory(response, _read(path, *changed), headers)
        response.headers["vary"] = "accept-encoding"
        response.headers["cache-control"] = "no-cache"
        if self.is_not_modified(response.headers, asked):
            return NotModifiedResponse(response.headers)
        return response


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


def _from_memory(plain: Response, body: bytes, headers: dict[str, str]) -> Response:
    kept = {"last-modified": plain.headers["last-modified"], **headers}
    return Response(body, plain.status_code, headers=kept, media_type=plain.media_type)


# Time and size are only there for the cache: a changed file has others.


@lru_cache(_KEPT)
def _read(path: Path, modified: int, size: int) -> bytes:
    return path.read_bytes()


@lru_cache(_KEPT)
def _packed(path: Path, modified: int, size: int) -> bytes:
    return gzip.compress(path.read_bytes(), 9, mtime=0)
