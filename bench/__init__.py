"""Benchmarks.  The package is imported before their dependencies, because it disables the telemetry of these."""

import realtime_tts as _realtime_tts  # noqa: F401
