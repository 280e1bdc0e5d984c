"""Modules in C, which an installation without a compiler does not have.

Each stands in for some Python, which is the reference and does the work where there is none.
``PURE_PYTHON=1`` leaves them all out.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def load_compiled(module: str) -> Any:
    """A compiled module; None where it was not built, or is to be left out."""
    if os.environ.get("PURE_PYTHON", "0") not in ("", "0"):
        return None
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
