"""What a session wants done: commands for the engine at once, and what is to be sent in its turn."""

from dataclasses import dataclass
from typing import TypeAlias

from realtime_tts.engine.api import EngineCommand
from realtime_tts.session.messages import AnyServerMessage

# -- At once, whatever waits to be sent -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FetchReference:
    """`ref_audio` of a config: to be fetched and decoded, and handed to `Session.on_reference`."""

    ref_audio: str


Command: TypeAlias = EngineCommand | FetchReference

# -- In its turn ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    message: AnyServerMessage


@dataclass(frozen=True, slots=True)
class Close:
    code: int
    reason: str
