"""Requests to the engine: the text after pronunciations, with the settings of the utterance."""

import dataclasses

from realtime_tts.frontends.native.messages import AudioStart
from tests.session.harness import DONE, INFO, Harness, configured


def test_a_request_has_the_configured_settings() -> None:
    info = dataclasses.replace(
        INFO, fields=INFO.fields | {"seed", "instructions", "pronunciations"}, ipa_symbols=frozenset("wɪn")
    )
    harness = Harness(info=info)
    harness.client(
        {
            "type": "session.config",
            "stream_audio": True,
            "speed": 1.5,
            "seed": 7,
            "language": "en-US",
            "instructions": "Gently.",
            "pronunciations": {"SQL": "sequel", "Nguyen": "/wɪn/"},
            "initial_codec_chunk_frames": 3,
        }
    )
    harness.text("Ask Nguyen for SQL.")
    harness.client(DONE)
    (request,) = harness.submitted
    assert request.text == "Ask Nguyen for sequel."
    assert request.pronunciations == (("Nguyen", "wɪn"),)
    assert (request.speed, request.sampling.seed, request.language) == (1.5, 7, "en")
    assert (request.instructions, request.initial_codec_chunk_frames, request.streamed) == ("Gently.", 3, True)
    harness.complete(request)
    assert harness.of(AudioStart)[0].sentence_text == "Ask Nguyen for SQL.", "the text as the client wrote it"


def test_pronunciations_that_make_a_sentence_too_long_are_not_applied() -> None:
    harness = configured(pronunciations={"a": "b" * 200})
    harness.text("a " * 100 + "end.")
    harness.client(DONE)
    assert max(len(request.text) for request in harness.submitted) <= 300


def test_line_breaks_inside_a_request_become_spaces() -> None:
    harness = configured(split_granularity="none")
    harness.text("One line\nand another.")
    harness.client(DONE)
    assert [request.text for request in harness.submitted] == ["One line and another."]
