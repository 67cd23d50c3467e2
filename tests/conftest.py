"""Hypothesis without deadlines: how long an example takes depends on the load of the machine."""

from hypothesis import settings

settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
