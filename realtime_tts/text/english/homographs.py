"""Word classes of homographs: "live" in "I live here" is a verb, in "a live show" an adjective.

A dictionary that has a pronunciation for each class is asked with the class found here.  The classes come from the words
around, which are mostly function words; tables hold them, and a few rules read the tables.
"""

import re
from collections.abc import Sequence
from enum import StrEnum


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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MODALS = _set(
    "can could will would shall should may might must cannot ought gonna wanna gotta i'll you'll he'll she'll it'll "
    "we'll they'll who'll that'll i'd you'd he'd she'd we'd they'd do does did let's lets please to dare"
)
_NEGATIONS = "n't"
_SUBJECTS = _set("i you we they he she who y'all")
_HAVE = _set("have has had having i've you've we've they've who've should've would've could've")
_BE = _set(
    "am is are was were be been being i'm you're he's she's it's we're they're that's there's who's what's isn't aren't "
    "wasn't weren't"
)
_LINKING = _BE | _set(
    "feel feels felt seem seems seemed look looks looked become becomes became stay stays stayed remain remains remained "
    "get gets got go goes went going gone sound sounds"
)
_DETERMINERS = _set(
    "a an the this these those every each another any some no both either neither which what whose my your his her its our "
    "their one's much many several few all more most less such two three four five six seven eight nine ten "
    "twenty thirty hundred thousand million first second third next last other own same"
)
_OBJECTS = _set(
    "it them him us me you yourself myself himself herself themselves everything anything something nothing "
    "everyone someone"
)
_OPENERS = (
    _set(
        "a an the this that these those my your his her its our their some any all each every both another one two "
        "three four five six seven eight nine ten no more"
    )
    | _OBJECTS
)
"""They begin an object: "record the", "use it"."""
_PREPOSITIONS = _set(
    "of in on at by for with from into about as than without under over between during through after before against per "
    "like via until since within across along around behind beyond despite toward towards upon among"
)
_PARTICLES = _set("up down out off away back apart along")
_CONJUNCTIONS = _set("and or but nor yet so then if when because that while unless although though where how why")
_ADVERBS = _set(
    "not never always also just only then now again still often ever already really usually sometimes probably actually "
    "currently simply even soon rather better rarely seldom regularly daily generally normally typically both all"
)
_INTENSIFIERS = _set("very so too how as quite pretty rather more most less least extremely fairly really incredibly")
_ADJECTIVES = _set(
    "new old good bad great poor big small large little long short high low recent early late best better worst worse "
    "main major minor key only single double full empty free strong weak real true false fresh raw common rare human public "
    "private national local online digital daily weekly monthly annual criminal medical legal social heavy light clean dirty "
    "fair safe hot cold warm cool slow fast hard soft easy simple final total whole entire perfect close live world lame "
    "organic sharp steep huge brief quick open secret official written dead blue red green black white british american"
)
_ADJECTIVE_END = re.compile(r".{2,}(?:ous|ful|ive|able|ible|less|ical|ial|ic|ish|ary|est)$")
_NOT_PLURAL = _set(
    "is was has does this its his us yes as thus perhaps always less unless across news plus bus gas ours "
    "yours theirs hers sometimes"
)
_PLURALS = _set("people children men women police folks cattle kids teeth feet mice others both")
_SINGULAR_END = ("ss", "us", "is", "'s")
_COMMON_VERBS = _set(
    "make makes made take takes took give gives gave show shows showed need needs needed want wants wanted set sets break "
    "breaks broke sign signs signed see sees saw find finds found buy buys bought sell sells sold use uses used hold holds "
    "held keep keeps kept play plays played offer offers offered provide provides provided face faces faced cause causes "
    "caused require requires required include includes included add adds added pay pays paid eat eats ate create creates "
    "created contain contains contained report reports reported under issue issues issued no"
)
_LETTING = _set("help helps let lets make makes made")
_CAUSING = _LETTING | _set("see saw watch hear heard have had")
_INDEFINITE = _set("everyone everybody someone somebody anyone anybody nobody it he she who which that")
_TIMES = _set("early late soon today tomorrow forever there here now daily again together well")

_NEVER_NOUNS = _set(
    "live separate close perfect frequent absent intimate legitimate appropriate desolate overcast crooked"
)
"""Their default pronunciation is that of the adjective or adverb."""
_ADJECTIVES_BY_DEFAULT = _set("content invalid covert overweight closer upset overhead")

_PAST_SIGNS = _set("yesterday ago once earlier previously finally recently")
_PAST_PHRASES = re.compile(
    r"\b(?:last (?:night|week|month|year|time|summer|winter|spring|fall|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday)|this morning|in (?:nineteen|two thousand|twenty)|"
    r"when i was|as a (?:child|kid)|at school|the other day|was|were|said|told|thought|felt|loved)\b"
)
_HABIT_SIGNS = _set("always usually often sometimes daily every rarely seldom weekly never mostly regularly")
_WITH_THE_METAL = _set(
    "pipe pipes paint poisoning acid bullet bullets crystal weight weights glass battery batteries solder "
    "shot ore plated free levels exposure contamination"
)
_FISH = _set("fish fishing fisherman lake river sea striped caught catch grilled largemouth smallmouth fillet sea")
_SMALL_THINGS = _set(
    "detail details amount amounts quantity quantities particle particles difference differences trace "
    "traces change changes fraction size variation variations proportion organisms"
)
_SCHOLARS = _set(
    "man men woman women scholar scholars professor judge judges friend counsel society colleague person people"
)
_LETTERED = _set(
    "vitamin plan grade class type option group team hepatitis section part appendix exhibit point side note letter level size "
    "row block building gate platform terminal line key choice answer version model zone series category schedule ward hall"
)

EXTRA_HOMOGRAPHS = frozenset(("lead", "resume", "polish", "a"))
"""Homographs that the dictionaries do not have by class."""


class Sentence:
    """The words and punctuation of a normalised text, whose homographs can be classified."""

    def __init__(self, text: str) -> None:
        matches = list(_WORDS.finditer(text))
        self._starts = [match.start() for match in matches]
        self._written = [match[0] for match in matches]
        self._words = [match[0].lower().replace("’", "'") for match in matches]
        self._text = " ".join(self._words)
        self._classes: dict[int, WordClass] = {}

    def word_class(self, start: int) -> WordClass:
        """The class of the word that starts there."""
        at = self._starts.index(start)
        if at not in self._classes:
            self._classes[at] = self._classify(at)
        return self._classes[at]

    def sense(self, start: int) -> str | None:
        """The name of a meaning where the word class does not decide: see `EXTRA_HOMOGRAPHS`."""
        at = self._starts.index(start)
        word, left, right = self._words[at], self._word(at - 1), self._word(at + 1)
        match word:
            case "lead" if right in _WITH_THE_METAL or (left == "of" and not right) or left in ("contains", "unleaded"):
                return "metal"
            case "resume" if self._after_determiner(at) or left in _PREPOSITIONS:
                return "document"
            case "polish" if self._written[at][0].isupper() and not left and right in _OPENERS:
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

    def _left(self, at: int) -> int:
        """The word before `at` that decides: adverbs in between do not."""
        at -= 1
        while self._word(at) in _ADVERBS or (self._word(at).endswith("ly") and len(self._word(at)) > 4):
            at -= 1
        return at

    def _is_open(self, word: str) -> bool:
        """Whether it may be a noun or adjective: not a function word."""
        return bool(word) and word not in _FUNCTION_WORDS and not word.endswith(_NEGATIONS)

    def _is_plural(self, word: str) -> bool:
        if word in _PLURALS:
            return True
        return word.endswith("s") and not word.endswith(_SINGULAR_END) and word not in _NOT_PLURAL | _COMMON_VERBS

    def _is_adjective(self, word: str) -> bool:
        return word in _ADJECTIVES or bool(_ADJECTIVE_END.match(word))

    def _after_determiner(self, at: int) -> bool:
        """Whether a determiner comes before, with at most two adjectives or nouns in between."""
        for back in range(at - 1, max(-1, at - 4), -1):
            word = self._word(back)
            if word in _DETERMINERS or word.endswith("'s"):
                return True
            if not self._is_open(word):
                return False
        return False

    def _nominal(self, at: int) -> WordClass:
        """After a determiner or preposition: an adjective before another noun, else a noun."""
        if not self._is_open(self._word(at + 1)):
            return WordClass.NOUN
        by_default = self._words[at] in _NEVER_NOUNS | _ADJECTIVES_BY_DEFAULT
        return WordClass.OTHER if by_default else WordClass.ADJECTIVE

    def _is_before_noun(self, word: str) -> bool:
        return word in _DETERMINERS or word.endswith("'s") or self._is_adjective(word)

    # -- Rules ---------------------------------------------------------------------------------------------------------

    def _classify(self, at: int) -> WordClass:
        word = self._words[at]
        if "-" in (self._mark(at - 1), self._mark(at + 1)):  # well-read, live-action
            if word == "read":
                return WordClass.PARTICIPLE if self._mark(at - 1) == "-" else WordClass.OTHER
            return WordClass.ADJECTIVE
        match word:
            case "live" if self._word(at - 1) == "long" and self._word(at + 1) in _OPENERS:
                return WordClass.VERB  # long live the king
            case "read" | "reread":
                return self._tense(at)
            case "used":
                return self._used(at)
            case "wound":
                return self._wound(at)
            case "minute":
                very = self._word(at - 1) in _INTENSIFIERS
                return WordClass.ADJECTIVE if very or self._word(at + 1) in _SMALL_THINGS else WordClass.OTHER
            case "learned":
                scholar = self._word(at + 1) in _SCHOLARS and self._after_determiner(at)
                return WordClass.ADJECTIVE if scholar else WordClass.OTHER
            case "bass":
                return WordClass.OTHER if _FISH.intersection(self._words) else WordClass.ADJECTIVE
            case "bow" if self._word(at - 1) == "a" and self._word(at - 2) in ("take", "took", "takes", "taking"):
                return WordClass.VERB
            case "bow" if self._words[at + 1 : at + 2] == ["of"]:
                return WordClass.VERB  # the bow of a ship, which sounds like the verb
            case "tear" if self._word(at - 2) == "wear":
                return WordClass.VERB  # wear and tear
            case "dove":
                left = self._word(self._left(at))
                dived = self._word(at + 1) in _PREPOSITIONS | _PARTICLES and not self._is_before_noun(left)
                return WordClass.VERB if dived else WordClass.OTHER
        return self._verb_or_noun(at)

    def _verb_or_noun(self, at: int) -> WordClass:
        word, right = self._words[at], self._word(at + 1)
        position = self._left(at)
        left, before = self._word(position), self._word(position - 1)
        opens_object = right in _OPENERS
        if word == "live" and not left and right in ("long", "well", "life", "free", "simply"):
            return WordClass.VERB
        if left in _INDEFINITE and word.endswith("s"):
            return WordClass.VERB
        if self._word(at - 1) in _INTENSIFIERS and (word in _NEVER_NOUNS or word in _ADJECTIVES_BY_DEFAULT):
            return WordClass.OTHER
        if word == "close" and right in ("to", "by") and left not in _MODALS:
            return WordClass.OTHER
        if left in _MODALS or left.endswith(_NEGATIONS) or left in _SUBJECTS:
            return WordClass.VERB
        if left == "it":
            caused = before in _LETTING or before in _MODALS
            return WordClass.VERB if word.endswith("s") or caused else WordClass.OTHER
        if left in ("which", "that", "who") and (word.endswith("s") or opens_object or right in _PREPOSITIONS):
            return WordClass.VERB
        if left in _LINKING:
            return WordClass.OTHER if word in _ADJECTIVES_BY_DEFAULT | _NEVER_NOUNS else self._nominal(at)
        if left in _DETERMINERS or left.endswith("'s") or left in _PREPOSITIONS or left in _HAVE:
            return self._nominal(at)
        if left in _CONJUNCTIONS and (joined := self._joined(position)):
            return joined
        if not left or left in _CONJUNCTIONS:
            return WordClass.VERB if opens_object or right in _PARTICLES else WordClass.OTHER
        if self._is_adjective(left):
            return self._nominal(at)
        return self._after_noun(at, left, before)

    def _joined(self, conjunction: int) -> WordClass | None:
        """ "We import and export": both are of one class."""
        if self._word(conjunction) not in ("and", "or") or conjunction - 1 not in self._classes:
            return None
        return self._classes[conjunction - 1]

    def _after_noun(self, at: int, left: str, before: str) -> WordClass:
        word, right = self._words[at], self._word(at + 1)
        third_person = word.endswith("s") and not word.endswith("ss")
        complement = right in _OPENERS or (right in _PREPOSITIONS and right != "of") or right == "to"
        if left in _COMMON_VERBS:
            return self._nominal(at)
        if self._is_plural(left) and not third_person:
            if complement or (self._is_open(right) and word not in _NEVER_NOUNS):
                return WordClass.VERB
            if word in ("live", "separate") or (
                (not self._is_open(right) or right in _TIMES) and self._is_only_verb(at, before)
            ):
                return WordClass.VERB
            return self._noun(word)
        if third_person and (
            right in _OPENERS or (word == "lives" and (complement or right in ("here", "there", "alone")))
        ):
            return WordClass.VERB
        if right in _OPENERS and before in _CAUSING:
            return WordClass.VERB
        return self._noun(word)

    def _is_only_verb(self, at: int, before: str) -> bool:
        """ "Metals contract when cold": a subject at the beginning, and nothing else that could be the verb."""
        others = self._words[:at] + self._words[at + 1 :]
        return (not before or before in _DETERMINERS) and not (_BE | _HAVE | _MODALS | _COMMON_VERBS).intersection(
            others
        )

    def _noun(self, word: str) -> WordClass:
        return WordClass.OTHER if word in _NEVER_NOUNS else WordClass.NOUN

    def _tense(self, at: int) -> WordClass:
        """ "Read" sounds like "red" in the past, and as an adjective."""
        position = self._left(at)
        left, before, right = self._word(position), self._word(position - 1), self._word(at + 1)
        near = self._words[max(0, position - 4) : position + 1]
        if (
            left in _MODALS
            or left.endswith(_NEGATIONS)
            or any(word in _MODALS for word in near[-3:-1] if left in _SUBJECTS)
        ):
            return WordClass.OTHER
        if left in _HAVE | _BE or any(word in _HAVE for word in near[-3:]):
            return WordClass.PARTICIPLE
        if self._words[at - 1] in ("well", "widely", "best"):
            return WordClass.PARTICIPLE
        if left in _DETERMINERS or self._is_adjective(left) or not left:
            return WordClass.OTHER
        if _HABIT_SIGNS.intersection(self._words):
            return WordClass.OTHER
        if left in ("he", "she", "who") or _PAST_SIGNS.intersection(self._words) or _PAST_PHRASES.search(self._text):
            return WordClass.PAST
        if left in ("i", "we"):
            definite = right in _set("it that this the your his her their about somewhere an a all one every")
            return WordClass.PAST if definite else WordClass.OTHER
        if left in ("you", "they") or self._is_plural(left) or left in _CONJUNCTIONS | _PREPOSITIONS:
            return WordClass.OTHER
        return WordClass.PAST if before not in _MODALS else WordClass.OTHER  # "the teacher read", "Tom read"

    def _used(self, at: int) -> WordClass:
        """ "Used to" is a habit, unless something is used to do something."""
        if self._word(at + 1) != "to":
            return WordClass.OTHER
        left, following = self._word(self._left(at)), self._word(at + 2)
        thing = (
            left in ("is", "are", "was", "were", "be", "been", "being", "it's") and self._word(at - 2) not in _SUBJECTS
        )
        habit = following in _DETERMINERS | _OBJECTS or following.endswith("ing")
        return WordClass.OTHER if thing and not habit else WordClass.PAST

    def _wound(self, at: int) -> WordClass:
        left, right = self._word(self._left(at)), self._word(at + 1)
        if right in _PARTICLES | {"around", "tightly"} or left in _SUBJECTS or left in _HAVE:
            return WordClass.PAST
        return WordClass.VERB if left in _MODALS else WordClass.OTHER

    def _is_letter(self, at: int) -> bool:
        """Whether a capital A is the name of the letter, and not the article."""
        left, right = self._word(at - 1), self._word(at + 1)
        written_right = self._written[at + 1] if at + 1 < len(self._written) else ""
        if left in _LETTERED or right in ("plus", "minus") or (len(written_right) == 1 and written_right.isupper()):
            return True
        if at and len(self._written[at - 1]) == 1 and self._written[at - 1].isupper() and left != "i":
            return True
        return not self._is_open(right) and right not in _DETERMINERS and (bool(left) or right in _BE)


_FUNCTION_WORDS = (
    _MODALS | _SUBJECTS | _HAVE | _BE | _DETERMINERS | _OBJECTS | _PREPOSITIONS | _PARTICLES | _CONJUNCTIONS
) - _set("lets own same second third next last other") | _set("there here")
