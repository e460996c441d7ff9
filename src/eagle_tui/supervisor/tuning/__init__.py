"""Changing the settings of a server that works: what is allowed, and what came of it."""
