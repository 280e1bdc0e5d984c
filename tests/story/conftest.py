"""The whole product, from a real broker to Spark's export: as a command, and in a real browser."""

from tests.web.conftest import browser, shots

__all__ = ["browser", "shots"]
