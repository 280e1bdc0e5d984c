"""Renderers by their formats."""

from __future__ import annotations

from spark_jobs.formats import diagrams, lines, parquet, shiviz
from spark_jobs.formats.renderer import Renderer

RENDERERS: dict[str, Renderer] = {
    "jsonl": lines.JSONL,
    "json": lines.JSON,
    "csv": lines.CSV,
    "exact.csv": lines.EXACT_CSV,
    "txt": lines.TXT,
    "parquet": parquet.PARQUET,
    "shiviz": shiviz.SHIVIZ,
    "dot": diagrams.DOT,
    "mmd": diagrams.MERMAID,
    "trace.json": diagrams.TRACE,
}
