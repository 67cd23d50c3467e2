"""Homographs sound as their word class and meaning require."""

from realtime_tts.engine.models.kokoro.homographs import Homographs
from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
from realtime_tts.text.offsets import AlignedText
from tests.engine.models.kokoro.conftest import real_voice
from tests.engine.models.kokoro.homograph_probes import PROBES


@real_voice
def test_homographs_sound_as_their_sentence_requires(pronouncer: Pronouncer) -> None:
    for probe in PROBES.strip().splitlines():
        text, _, sounds = probe.partition(" = ")
        phonemes, at = pronouncer.transcribe(text).text, 0
        for sound in sounds.split():
            at = phonemes.find(sound, at)
            assert at >= 0, f"{text} has no {sound} in {phonemes}"
            at += len(sound)


def test_only_homographs_are_replaced_and_offsets_stay() -> None:
    dictionary = {"live": {"DEFAULT": "lIv", "VERB": "lɪv"}, "been": {"DEFAULT": "bɪn", "None": "bˈɪn"}, "in": "ɪn"}
    homographs = Homographs(dictionary, str)
    words = homographs.insert_placeholders(AlignedText.of("I've been, I live in"))
    assert words.text == "I've been, I qzliveverbzq in"
    assert words.source(words.text.index("qz")) == 13
    assert dictionary["qzliveverbzq"] == "lɪv"
    unchanged = AlignedText.of("nothing here")
    assert homographs.insert_placeholders(unchanged) is unchanged


def test_the_extra_meanings_are_in_the_sounds_of_the_accent() -> None:
    dictionary: dict[str, object] = {}
    Homographs(dictionary, str.upper).insert_placeholders(AlignedText.of("a lead pipe"))
    assert dictionary == {"qzleadmetalzq": "LˈƐD"}
