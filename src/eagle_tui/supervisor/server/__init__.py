"""The servers of a run: launch, readiness, crash and restart, hang, stop."""
