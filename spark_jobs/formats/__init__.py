"""Renderers of the export formats (`model.exports`)."""
