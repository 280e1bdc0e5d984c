"""What a test here needs is a moment: no servers."""

import gc


def pytest_collection_finish() -> None:
    """Leave what was imported out of the collections of garbage that follow."""
    gc.collect()
    gc.freeze()
