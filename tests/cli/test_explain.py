"""Command `explain`: sentences, words and phonemes, without a server."""

import io
import json

import pytest

from realtime_tts.cli.explain import choose_voice, explain_text, table
from realtime_tts.engine.api import ModelInfo, Voice
from realtime_tts.engine.models import tone
from realtime_tts.engine.models.spec import Reading
from realtime_tts.errors import InvalidConfig, NothingToSpeak, UnknownVoice
from tests.cli.conftest import Command
from tests.engine.models.kokoro.conftest import real_voice

TWO = (Voice("american", "en-US"), Voice("british", "en-GB"))
INFO = ModelInfo("two", 24_000, 600, TWO, "american")


def loud(text: str, voice: str) -> Reading:
    return Reading(text.upper(), f"{voice}!")


@real_voice
def test_the_embedded_voice_is_explained_in_json(command: Command) -> None:
    result = command("explain", "Dr. Hale paid $5. [pause:1s] I read it.", "--voice", "bf_emma", "--json")
    assert result.status == 0, result.errors
    explained = json.loads(result.output)
    assert (explained["model"], explained["voice"], explained["language"]) == ("kokoro", "bf_emma", "en-GB")
    first, second = explained["sentences"]
    assert (first["text"], first["spoken"]) == ("Dr. Hale paid $5.", "Doctor Hale paid five dollars.")
    assert first["phonemes"].startswith("dˈɒktə hˈAl")
    assert (first["pause_ms"], second["pause_ms"]) == (0, 1000)


def test_standard_input_is_read_and_a_model_of_letters_has_no_phonemes(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello. Bye."))
    result = command("explain", "-", "--model", "tone", "--json")
    assert result.status == 0, result.errors
    sentences = json.loads(result.output)["sentences"]
    assert [(each["text"], each["spoken"], each["phonemes"]) for each in sentences] == [
        ("Hello.", "Hello.", None),
        ("Bye.", "Bye.", None),
    ]


def test_a_table_is_for_a_person() -> None:
    explanation = explain_text("Hi there. <break/>Bye.", INFO, "british", None, loud)
    assert table(explanation).splitlines() == [
        "model two, voice british, language en-GB",
        "",
        "text      Hi there.",
        "spoken    HI THERE.",
        "phonemes  british!",
        "",
        "pause     500 ms",
        "text      Bye.",
        "spoken    BYE.",
        "phonemes  british!",
    ]


def test_filters_are_those_of_a_session() -> None:
    (sentence,) = explain_text("**Hi** there", INFO, None, None, loud, ("markdown",)).sentences
    assert sentence.text == "Hi there"
    with pytest.raises(InvalidConfig, match="there is no filter 'html'"):
        explain_text("Hi", INFO, None, None, loud, ("html",))


def test_the_voice_follows_the_language() -> None:
    for voice, language, expected in (
        (None, None, "american"),
        (None, "en", "american"),
        (None, "en-GB", "british"),
        (None, "en_us", "american"),
        ("british", "English", "british"),
        ("british", None, "british"),
    ):
        assert choose_voice(INFO, voice, language) == expected, (voice, language)


def test_what_cannot_be_explained_is_a_typed_error(command: Command) -> None:
    with pytest.raises(UnknownVoice, match="realtime-tts voices"):
        choose_voice(INFO, "nobody", None)
    with pytest.raises(InvalidConfig, match="speaks en-GB, en-US"):
        choose_voice(INFO, None, "de")
    with pytest.raises(InvalidConfig, match="try british"):
        choose_voice(INFO, "american", "en-GB")
    with pytest.raises(NothingToSpeak):
        explain_text("... 😀", tone.info(), None, None, None)
    result = command("explain", "Hi", "--model", "tone", "--voice", "nobody")
    assert result.status == 1
    assert "there is no voice 'nobody'" in result.errors
