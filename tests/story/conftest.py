"""The whole product, from a real broker to Spark's export: as a command, and in a real browser."""

from tests.web.conftest import shots

__all__ = ["shots"]
