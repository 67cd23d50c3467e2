"""Word classes of homographs: "live" in "I live here" is a verb, in "a live show" an adjective.

A dictionary that has a pronunciation for each class is asked with the class found here.  It comes from the words
around, which are mostly function words; `context_words` holds them, and a few rules read it.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum

from realtime_tts.text.english.context_words import (
    ADJECTIVE_END,
    ADJECTIVES,
    ADJECTIVES_BY_DEFAULT,
    ADVERBS,
    BE,
    CAUSING,
    COMMON_VERBS,
    CONJUNCTIONS,
    DEFINITE,
    DETERMINERS,
    FISH,
    FUNCTION_WORDS,
    HABIT_SIGNS,
    HAVE,
    INDEFINITE,
    INTENSIFIERS,
    LETTERED,
    LETTING,
    LINKING,
    MODALS,
    NEGATIONS,
    NEVER_NOUNS,
    NOT_PLURAL,
    OBJECTS,
    OPENERS,
    PARTICLES,
    PAST_PHRASES,
    PAST_SIGNS,
    PLURALS,
    PREPOSITIONS,
    RELATIVES,
    SCHOLARS,
    SINGULAR_END,
    SMALL_THINGS,
    SUBJECTS,
    TIMES,
    WITH_THE_METAL,
)


class WordClass(StrEnum):
    """The values are the keys of misaki's dictionaries."""

    VERB = "VERB"
    PAST = "VBD"
    PARTICIPLE = "VBN"
    NOUN = "NOUN"
    ADJECTIVE = "ADJ"
    OTHER = "DEFAULT"
    """No sign of a class: the most frequent pronunciation."""


_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|[^\s\w]")

_ASKING = frozenset(("do", "does", "did", "can", "could", "will", "would", "should", "may", "must"))

EXTRA_HOMOGRAPHS = frozenset(("lead", "resume", "polish", "a"))
"""Homographs that the dictionaries do not have by class."""


class Sentence:
    """The words and punctuation of a normalised text, whose homographs can be classified."""

    def __init__(self, text: str) -> None:
        matches = list(_WORDS.finditer(text))
        self._written = [match[0] for match in matches]
        self._words = [match[0].lower().replace("’", "'") for match in matches]
        self._text = " ".join(self._words)
        self._at = {start: at for at, start in enumerate(match.start() for match in matches)}
        self._all = frozenset(self._words)
        self._classes: dict[int, WordClass] = {}

    def word_class(self, start: int) -> WordClass:
        """The class of the word that starts there."""
        at = self._at[start]
        if at not in self._classes:
            self._classes[at] = self._classify(at)
        return self._classes[at]

    def sense(self, start: int) -> str | None:
        """The name of a meaning where the word class does not decide: see `EXTRA_HOMOGRAPHS`."""
        at = self._at[start]
        word, left, right = self._words[at], self._word(at - 1), self._word(at + 1)
        match word:
            case "lead" if right in WITH_THE_METAL or (left == "of" and not right) or left in ("contains", "unleaded"):
                return "metal"
            case "resume" if self._after_determiner(at) or left in PREPOSITIONS:
                return "document"
            case "polish" if self._written[at][0].isupper() and not left and right in OPENERS:
                return "shine"
            case "a" if self._written[at] == "A" and self._is_letter(at):
                return "letter"
        return None

    # -- Context -------------------------------------------------------------------------------------------------------

    def _word(self, at: int) -> str:
        """The word there, or "" where there is none or a mark of punctuation."""
        word = self._words[at] if 0 <= at < len(self._words) else ""
        return word if word[:1].isalpha() else ""

    def _mark(self, at: int) -> str:
        return self._words[at] if 0 <= at < len(self._words) else ""

    def _has_any(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self._all)

    def _left(self, at: int) -> int:
        """The word before `at` that decides: adverbs in between do not."""
        at -= 1
        while (
            self._word(at) in ADVERBS
            or (self._word(at) in ("both", "all") and self._word(at - 1))
            or (self._word(at).endswith("ly") and len(self._word(at)) > 4)
        ):
            at -= 1
        return at

    def _is_open(self, word: str) -> bool:
        """Whether it may be a noun or adjective: not a function word."""
        return bool(word) and word not in FUNCTION_WORDS and not word.endswith(NEGATIONS)

    def _is_plural(self, word: str) -> bool:
        if word in PLURALS:
            return True
        return word.endswith("s") and not word.endswith(SINGULAR_END) and word not in NOT_PLURAL | COMMON_VERBS

    def _is_adjective(self, word: str) -> bool:
        return word in ADJECTIVES or bool(ADJECTIVE_END.match(word))

    def _after_determiner(self, at: int) -> bool:
        """Whether a determiner comes before, with at most two adjectives or nouns in between."""
        for back in range(at - 1, max(-1, at - 4), -1):
            word = self._word(back)
            if word in DETERMINERS or word.endswith("'s"):
                return True
            if not self._is_open(word):
                return False
        return False

    def _nominal(self, at: int) -> WordClass:
        """After a determiner or preposition: an adjective before another noun, else a noun."""
        if not self._is_open(self._word(at + 1)):
            return WordClass.NOUN
        by_default = self._words[at] in NEVER_NOUNS | ADJECTIVES_BY_DEFAULT
        return WordClass.OTHER if by_default else WordClass.ADJECTIVE

    def _is_before_noun(self, word: str) -> bool:
        return word in DETERMINERS or word.endswith("'s") or self._is_adjective(word)

    # -- Rules ---------------------------------------------------------------------------------------------------------

    def _classify(self, at: int) -> WordClass:
        word = self._words[at]
        if "-" in (self._mark(at - 1), self._mark(at + 1)):  # well-read, read-only, live-action
            if word == "read":
                return WordClass.PARTICIPLE if self._mark(at - 1) == "-" else WordClass.OTHER
            return WordClass.ADJECTIVE
        rule = _RULES.get(word)
        found = None if rule is None else rule(self, at)
        return self._verb_or_noun(at) if found is None else found

    def _verb_or_noun(self, at: int) -> WordClass:
        word, right = self._words[at], self._word(at + 1)
        position = self._left(at)
        left, before = self._word(position), self._word(position - 1)
        third_person = word.endswith("s") and not word.endswith("ss")
        if left in MODALS or left.endswith(NEGATIONS) or left in SUBJECTS or (left in INDEFINITE and third_person):
            return WordClass.VERB
        if left in RELATIVES and (right in OPENERS or right in PREPOSITIONS):
            return WordClass.VERB
        if self._is_caused(left, before) or (left in INDEFINITE and before in MODALS):
            return WordClass.VERB
        if left == "it":
            return WordClass.OTHER
        if left in LINKING and word in NEVER_NOUNS | ADJECTIVES_BY_DEFAULT:
            return WordClass.OTHER
        if self._is_before_noun(left) or left in LINKING | PREPOSITIONS | HAVE:
            return self._nominal(at)
        if left in CONJUNCTIONS and (joined := self._joined(position)):
            return joined
        if not left or left in CONJUNCTIONS:
            return WordClass.VERB if right in OPENERS or right in PARTICLES else WordClass.OTHER
        if left in COMMON_VERBS:
            return self._nominal(at)
        if self._is_predicate(at, left, before):
            return WordClass.VERB
        return WordClass.OTHER if word in NEVER_NOUNS else WordClass.NOUN

    def _is_caused(self, left: str, before: str) -> bool:
        """Let it use that, help me read, does anyone object."""
        return left in OBJECTS and before in LETTING | {"let's"} | _ASKING

    def _is_predicate(self, at: int, left: str, before: str) -> bool:
        """Whether it is the verb of the noun before it: "Factories produce cars"."""
        word, right = self._words[at], self._word(at + 1)
        if right in OPENERS and before in CAUSING:
            return True
        if word.endswith("s") and not word.endswith("ss"):
            return right in OPENERS or (word == "lives" and (right in PREPOSITIONS or right in TIMES))
        if not self._is_plural(left):
            return False
        if right in OPENERS or right == "to" or (right in PREPOSITIONS and right != "of"):
            return True
        if word in ("live", "separate"):
            return True
        if self._is_open(right) and right not in TIMES:
            return word not in NEVER_NOUNS
        return self._is_only_verb(at, before)

    def _joined(self, conjunction: int) -> WordClass | None:
        """ "We import and export": both are of one class."""
        if self._word(conjunction) not in ("and", "or") or conjunction - 1 not in self._classes:
            return None
        return self._classes[conjunction - 1]

    def _is_only_verb(self, at: int, before: str) -> bool:
        """ "Metals contract when cold": a subject at the beginning, and nothing else that could be the verb."""
        others = {*self._words[:at], *self._words[at + 1 :]}
        return (not before or before in DETERMINERS) and not others & (BE | HAVE | MODALS | COMMON_VERBS)

    # -- Words with rules of their own ---------------------------------------------------------------------------------

    def _live(self, at: int) -> WordClass | None:
        """Long live the king; live long and prosper."""
        left, right = self._word(at - 1), self._word(at + 1)
        wish = (left == "long" and right in OPENERS) or (
            not left and right in ("long", "well", "life", "free", "simply")
        )
        return WordClass.VERB if wish else self._close(at)

    def _close(self, at: int) -> WordClass | None:
        """Close to home, very close."""
        nearby = self._words[at] == "close" and self._word(at + 1) in ("to", "by")
        near = nearby and self._word(self._left(at)) not in MODALS
        return WordClass.OTHER if near or self._word(at - 1) in INTENSIFIERS else None

    def _minute(self, at: int) -> WordClass:
        tiny = self._word(at - 1) in INTENSIFIERS or self._word(at + 1) in SMALL_THINGS
        return WordClass.ADJECTIVE if tiny else WordClass.OTHER

    def _learned(self, at: int) -> WordClass:
        scholar = self._word(at + 1) in SCHOLARS and self._after_determiner(at)
        return WordClass.ADJECTIVE if scholar else WordClass.OTHER

    def _bass(self, _at: int) -> WordClass:
        return WordClass.OTHER if self._has_any(FISH) else WordClass.ADJECTIVE

    def _bow(self, at: int) -> WordClass | None:
        """Take a bow, and the bow of a ship: both sound like the verb."""
        taken = self._word(at - 1) == "a" and self._word(at - 2) in ("take", "took", "takes", "taking")
        return WordClass.VERB if taken or self._word(at + 1) == "of" else None

    def _tear(self, at: int) -> WordClass | None:
        return WordClass.VERB if self._word(at - 2) == "wear" else None  # wear and tear

    def _dove(self, at: int) -> WordClass:
        dived = self._word(at + 1) in PREPOSITIONS | PARTICLES and not self._is_before_noun(self._word(self._left(at)))
        return WordClass.VERB if dived else WordClass.OTHER

    def _read(self, at: int) -> WordClass:
        """ "Read" sounds like "red" in the past, and as an adjective."""
        position = self._left(at)
        left, right = self._word(position), self._word(at + 1)
        before = self._word(position - 1)
        asked = (left in SUBJECTS and before in MODALS) or self._is_caused(left, before)  # did you read, let me read
        if asked or left in MODALS or left.endswith(NEGATIONS):
            return WordClass.OTHER
        if left in HAVE | BE or before in HAVE or self._word(position - 2) in HAVE:
            return WordClass.PARTICIPLE
        if self._word(at - 1) in ("well", "widely", "best"):
            return WordClass.PARTICIPLE
        if not left or self._is_before_noun(left) or self._has_any(HABIT_SIGNS):
            return WordClass.OTHER
        if left in ("he", "she", "who") or self._has_any(PAST_SIGNS) or PAST_PHRASES.search(self._text):
            return WordClass.PAST
        if left in ("i", "we"):
            return WordClass.PAST if right in DEFINITE else WordClass.OTHER
        if left in ("you", "they") or self._is_plural(left) or left in CONJUNCTIONS | PREPOSITIONS:
            return WordClass.OTHER
        return WordClass.OTHER if before in MODALS else WordClass.PAST  # "the teacher read", "Tom read"

    def _used(self, at: int) -> WordClass:
        """ "Used to" is a habit, unless something is used to do something."""
        if self._word(at + 1) != "to":
            return WordClass.OTHER
        left, following = self._word(self._left(at)), self._word(at + 2)
        thing = left in BE and self._word(at - 2) not in SUBJECTS and left not in ("i'm", "you're", "we're", "they're")
        habit = following in DETERMINERS | OBJECTS or following.endswith("ing")
        return WordClass.OTHER if thing and not habit else WordClass.PAST

    def _wound(self, at: int) -> WordClass:
        left, right = self._word(self._left(at)), self._word(at + 1)
        if right in PARTICLES | {"around", "tightly"} or left in SUBJECTS or left in HAVE:
            return WordClass.PAST
        return WordClass.VERB if left in MODALS else WordClass.OTHER

    def _is_letter(self, at: int) -> bool:
        """Whether a capital A is the name of the letter, and not the article."""
        left, right = self._word(at - 1), self._word(at + 1)
        written_right = self._written[at + 1] if at + 1 < len(self._written) else ""
        if left in LETTERED or right in ("plus", "minus") or (len(written_right) == 1 and written_right.isupper()):
            return True
        if at and len(self._written[at - 1]) == 1 and self._written[at - 1].isupper() and left != "i":
            return True
        return not self._is_open(right) and right not in DETERMINERS and (bool(left) or right in BE)


_RULES: Mapping[str, Callable[[Sentence, int], WordClass | None]] = {
    "live": Sentence._live,
    "close": Sentence._close,
    "content": Sentence._close,
    "minute": Sentence._minute,
    "learned": Sentence._learned,
    "bass": Sentence._bass,
    "bow": Sentence._bow,
    "tear": Sentence._tear,
    "dove": Sentence._dove,
    "read": Sentence._read,
    "reread": Sentence._read,
    "used": Sentence._used,
    "wound": Sentence._wound,
}
