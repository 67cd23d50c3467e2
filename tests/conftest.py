"""How long an example takes says how busy the machine is, and nothing of what is tested."""

from hypothesis import settings

settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
