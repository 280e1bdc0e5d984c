"""The table's rows, a module for each thing that is struck."""

from drills.faults.rows import broker, controls, database, policies, process, queue, services
from drills.faults.table import FAULTS

ROWS = (controls, broker, policies, queue, database, process, services)

__all__ = ["FAULTS", "ROWS"]
