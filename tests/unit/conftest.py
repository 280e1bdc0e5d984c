"""Few and fixed examples for every day; ``ITC_EXAMPLES=2000`` looks for new ones."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = os.environ.get("ITC_EXAMPLES")

settings.register_profile(
    "unit",
    max_examples=int(EXAMPLES or 25),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,  # the machine's load is not the code's fault
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unit")
