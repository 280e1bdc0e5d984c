"""Every fault that may cost the record something, done to a real service, and what it cost.

    python -m drills.faults [--only NAME …] [--store sqlite|postgres] [--trials N] [--short]

Clients that keep clocks of their own (`clients`) say what happened. While they work, a fault from
the table (`table`) strikes the service, its broker or its database on the trial's `stage`. Then the
judge (`judge`) compares what is stored with what the clients know.

It must find nothing lost or wrong outside the gaps that the service recorded, and nothing twice.
"""
