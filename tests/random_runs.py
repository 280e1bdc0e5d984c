"""Few examples in `make test`, five times as many in `make test-long`, the same each time.

``HYPOTHESIS_EXAMPLES=2000`` looks for new ones.
"""

import os

from hypothesis import HealthCheck, settings

NEW = os.environ.get("HYPOTHESIS_EXAMPLES")

always = settings(
    database=None,
    deadline=None,  # the machine's load is not the code's fault
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", always, max_examples=10, derandomize=True)
settings.register_profile("thorough", always, max_examples=50, derandomize=True)
settings.register_profile("new", always, max_examples=int(NEW or 1), derandomize=False)
settings.load_profile("new" if NEW else os.environ.get("HYPOTHESIS_PROFILE", "quick"))
