"""Hypothesis without deadlines, since the machine may be busy; and no telemetry of a package that a test imports."""

from hypothesis import settings

import realtime_tts  # noqa: F401  # before other packages, whose telemetry it disables

settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
