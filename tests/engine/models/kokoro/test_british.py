"""British English: dictionary words, word forms, unknown words, and a user's IPA."""

import pytest

from realtime_tts.engine.models.kokoro.british import (
    BritishFallback,
    BritishLexicon,
    Dictionaries,
    british_g2p,
    british_sounds,
    load_dictionaries,
)
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer, Pronouncers, load_vocabulary
from tests.engine.models.kokoro.conftest import real_voice

WORDS = {
    "bath": "bˈɑːθ",
    "tomato": "təmˈɑːtQ",
    "water": "wˈɔːtə",
    "schedule": "ʃˈɛdjuːl",
    "car": "kˈɑː",
    "can't": "kˈɑːnt",
    "dance": "dˈɑːns",
    "laboratory": "ləbˈɒɹətəɹi",
    "watering": "wˈɔːtəɹɪŋ",
    "privacy": "pɹˈɪvəsi",
    "should've": "ʃˈʊdəv",
}


@pytest.fixture(scope="module")
def british(pronouncers: Pronouncers) -> Pronouncer:
    return pronouncers.of("bf_emma")


@real_voice
def test_british_voices_have_british_sounds_and_american_ones_keep_theirs(pronouncers: Pronouncers) -> None:
    for voice in ("bf_emma", "bm_george"):
        for word, sounds in WORDS.items():
            assert pronouncers.of(voice).transcribe(word).text == sounds, (voice, word)
    assert pronouncers.reading("water", "am_adam").phonemes == "wˈɔTəɹ"


@real_voice
def test_a_dictionary_is_loaded_when_a_voice_first_needs_it() -> None:
    pronouncers = Pronouncers()
    assert pronouncers._loaded == {}
    pronouncers.read("Hi", (), "bm_george")
    assert list(pronouncers._loaded) == ["en-GB"]


@real_voice
def test_every_british_sound_is_in_the_models_vocabulary(british: Pronouncer) -> None:
    text = (
        "Zorbing Kubernetes blorptastic scheduled, bathed, waited, judges; Worcester. £5 on 3/4, I read it. Lead pipe!"
    )
    assert set(british.transcribe(text).text) <= load_vocabulary().keys()


@real_voice
def test_british_dates_homographs_and_ipa(british: Pronouncer) -> None:
    assert british.reading("on 3/4").spoken == "on the third of April"
    assert british.transcribe("Please record a record.").text == "plˈiːz ɹɪkˈɔːd ɐ ɹˈɛkɔːd."
    assert british.transcribe("Nguyen", [("Nguyen", "ˈwɜːn")]).text == "ˈwɜːn"


def test_american_sounds_become_british() -> None:
    for american, expected in (
        ("blˌɔɹptˈæstɪk", "blˌɔːptˈastɪk"),
        ("wˈɔTəɹɪŋ", "wˈɔːtəɹɪŋ"),
        ("ɡˈO", "ɡˈQ"),
        ("hˈɑt", "hˈɒt"),
        ("bˈɜɹd", "bˈɜːd"),
        ("sˈit", "sˈiːt"),
        ("ɹˈʌn", "ɹˈʌn"),
        ("ʤˈʌʤᵻz", "ʤˈʌʤɪz"),
        ("fˈAɹs", "fˈAs"),
    ):
        assert british_sounds(american) == expected, american


def test_word_forms_are_british() -> None:
    lexicon = BritishLexicon(Dictionaries({"wait": "wˈAt", "water": "wˈɔːtə"}, {}))
    assert lexicon._ed("wˈAt") == "wˈAtɪd"
    assert lexicon._ed("bˈAð") == "bˈAðd"
    assert lexicon._ed("pˈæk") == "pˈækt"
    assert lexicon._s("ʤˈʌʤ") == "ʤˈʌʤɪz"
    assert lexicon._ing("wˈɔːtə") == "wˈɔːtəɹɪŋ"
    assert lexicon._ing("wˈAt") == "wˈAtɪŋ"
    assert lexicon._s(None) is lexicon._ed(None) is lexicon._ing(None) is None


@real_voice
def test_the_packed_dictionaries_are_complete() -> None:
    dictionaries = load_dictionaries()
    assert (len(dictionaries.gold), len(dictionaries.silver)) == (87_352, 109_764)
    assert isinstance(british_g2p().fallback, BritishFallback)
