"""What holds for all tests.

Examples of property tests are the same in every run, whatever ran before, and no time limit is set
for one: neither luck nor a busy machine may decide. `--hypothesis-profile=explore` looks for new
ones.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("same", TIMELESS, derandomize=True, database=None)
settings.register_profile("explore", TIMELESS)
settings.load_profile("same")
