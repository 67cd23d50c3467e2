"""Accents: language, dictionaries, IPA."""

from realtime_tts.engine.models.kokoro.accents import AMERICAN, BRITISH
from realtime_tts.engine.models.kokoro.added_words import ADDED_WORDS
from realtime_tts.engine.models.kokoro.phonemes import load_vocabulary
from tests.engine.models.kokoro.conftest import real_voice


def test_each_accent_has_its_own_sounds() -> None:
    assert (AMERICAN.language, BRITISH.language) == ("en-US", "en-GB")
    assert (AMERICAN.symbols_of_ipa("nɜːs"), BRITISH.symbols_of_ipa("nɜːs")) == ("nɜɹs", "nɜːs")
    assert (AMERICAN.sounds_of("kˈɑɹ"), BRITISH.sounds_of("kˈɑɹ")) == ("kˈɑɹ", "kˈɑː")


def test_added_words_have_sounds_of_the_model_in_both_accents() -> None:
    symbols = load_vocabulary().keys()
    for word, sounds in ADDED_WORDS.items():
        assert set(sounds) <= symbols, word
        assert set(BRITISH.sounds_of(sounds)) <= symbols, word


@real_voice
def test_an_accent_loads_its_dictionaries() -> None:
    assert AMERICAN.make_g2p().lexicon.golds["bath"] == "bˈæθ"
    assert BRITISH.make_g2p().lexicon.golds["bath"] == "bˈɑːθ"
