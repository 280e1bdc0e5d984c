"""The command line of the fault drill."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from drills.faults.rows import FAULTS
from drills.faults.rows.killing import killing
from drills.faults.runner import Runner, chosen, report


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m drills.faults")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(FAULTS), default=[])
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="that one alone")
    parser.add_argument("--trials", type=int, default=1, help="of each row")
    parser.add_argument("--short", action="store_true", help="a handful of quick rows")
    parser.add_argument("--kills", type=int, help="this many kills at random, and no other row")
    parser.add_argument("--list", action="store_true", help="say which rows there are")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> int:
    """Run the rows; returns the number of errors."""
    rows = chosen(FAULTS.values(), given.only, given.store, short=given.short)
    if given.kills:
        rows = chosen(killing(given.kills), (), given.store)
    results = []
    async with Runner() as runner:
        for fault, store in rows:
            result = await runner.row(fault, store, given.trials)
            print(result.line(), flush=True)
            for remark in result.remarks:
                print("   ", remark, flush=True)
            results.append(result)
    print()
    print(report(results))
    return sum(result.errors for result in results)


if __name__ == "__main__":
    options = arguments()
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # what breaks is broken on purpose
    if options.list:
        for each in FAULTS.values():
            print(f"{each.name:20}{each.title} ({', '.join(each.stores)})")
        sys.exit()
    sys.exit(asyncio.run(main(options)) > 0)
