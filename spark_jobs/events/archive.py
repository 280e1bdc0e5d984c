"""Reading an archive: what the archive job wrote of a virtual host, partitioned by day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from model.archives import MANIFEST, ArchiveFile, ArchiveManifest
from model.jobs import Problem
from model.sound import MOST_LATE
from spark_jobs.errors import JobError
from spark_jobs.events.history import History
from spark_jobs.export import write_file
from spark_jobs.spark.columns import FLAG, arrow_schema


@dataclass(frozen=True)
class Archive(ArchiveManifest):
    """An archive, and reading its events; small, and travels to executors."""

    @classmethod
    def find(cls, root: Path, event_id: int) -> Archive | None:
        """The archive under a folder of archives that has an event."""
        folders = sorted(root.iterdir()) if root.is_dir() else []
        archives = (cls.load(folder) for folder in folders)
        return next((archive for archive in archives if archive and archive.holds(event_id)), None)

    def check_of(self, history: History, trace: int) -> None:
        """Raise JobError (bad_request) if the archive belongs to another store."""
        if self.trace != trace or not self.fits(history.newest_until(trace, self.through)):
            raise JobError(
                Problem.bad_request,
                f"The archive of {self.vhost} in {self.folder} is of another store, or the store"
                " was restored from a backup since; move that folder away and ask again.",
            )

    def save(self) -> None:
        """Write this as the archive's manifest."""
        facts: dict[str, Any] = asdict(self)
        del facts["folder"]
        write_file(self.folder / MANIFEST, json.dumps(facts, indent=1).encode() + b"\n")

    def holds(self, event_id: int) -> bool:
        """Tell whether an event is in the archive."""
        return any(batch.num_rows for batch in self.read(("id",), event_id, event_id))

    def read(self, columns: Sequence[str], first_id: int, last_id: int) -> Iterator[pa.RecordBatch]:
        """The events of a span of ids in batches, by id."""
        for part in self._parts(first_id, last_id):
            file = self._file(part, columns)
            span = (ds.field("id") >= first_id) & (ds.field("id") <= last_id)
            for batch in file.to_batches(columns=list(columns), filter=span, use_threads=False):
                if batch.num_rows:
                    yield _whole(batch.cast(arrow_schema(columns)))

    def late_links(self, first_id: int, last_id: int) -> set[tuple[int, int]]:
        """The links of a span that clocks do not have, as (effect, cause): about `MOST_LATE`."""
        links: set[tuple[int, int]] = set()
        for batch in self.read(("id", "late"), first_id, last_id):
            present = batch.filter(pc.is_valid(batch.column("late")))
            for effect, causes in zip(*present.to_pydict().values(), strict=True):
                links |= {
                    (effect, cause)
                    for cause_text in causes.split(",")
                    if (cause := int(cause_text)) >= first_id
                }
            if len(links) >= MOST_LATE:
                break
        return links

    def lookup(self, columns: Sequence[str], ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Some columns of single events by their ids; events that are not here are left out."""
        rows = {}
        for part in self.parts:
            part_ids = [event_id for event_id in ids if part.first_id <= event_id <= part.last_id]
            if part_ids:
                file = self._file(part, ("id", *columns))
                table = file.to_table(["id", *columns], filter=ds.field("id").isin(part_ids))
                rows.update({row["id"]: row for row in table.to_pylist()})
        return rows

    def _parts(self, first_id: int, last_id: int) -> Iterator[ArchiveFile]:
        """The files that may have events with ids in a span."""
        for part in self.parts:
            if part.first_id <= last_id and part.last_id >= first_id:
                yield part

    def _file(self, part: ArchiveFile, columns: Sequence[str]) -> ds.Dataset:
        """One file; columns that are newer than it are null."""
        schema = arrow_schema(columns)
        return ds.dataset(str(self.folder / part.file), schema=schema, format="parquet")

    @property
    def row_bytes(self) -> int:
        """About how many bytes an event takes in memory: files are several times smaller."""
        events = sum(part.events for part in self.parts)
        return 4 * sum(part.bytes for part in self.parts) // max(events, 1)


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with missing flags as False."""
    for index, field in enumerate(batch.schema):
        if field.type == FLAG:
            batch = batch.set_column(index, field, pc.fill_null(batch.column(index), False))
    return batch
