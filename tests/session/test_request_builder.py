"""Requests to the engine: the text after pronunciations, with the settings of the utterance."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import QuotaExceeded
from realtime_tts.frontends.native.messages import AudioDone, AudioStart, ServerError, SessionDone
from tests.session.harness import CANCEL, DONE, INFO, STREAM, Harness, configured


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


# -- Quota -------------------------------------------------------------------------------------------------------------


class CountedQuota:
    def __init__(self, limit: int) -> None:
        self.left = limit
        self.charged: list[int] = []

    def charge(self, characters: int) -> None:
        if characters > self.left:
            raise QuotaExceeded("no more", retry_after_s=3.0)
        self.left -= characters
        self.charged.append(characters)


def speaking(quota: CountedQuota, pronunciations: dict[str, str], info: ModelInfo = INFO) -> Harness:
    harness = Harness(quota=quota, info=info)
    harness.client({**STREAM, "pronunciations": pronunciations})
    return harness


def test_what_pronunciations_add_to_a_text_counts_against_the_quota() -> None:
    for text, pronunciations, charged in (
        ("Use SQL here.", {"SQL": "sequel"}, [13, 3]),
        ("Use SQL here.", {"sql": "s"}, [13]),
        ("Use SQL here.", {}, [13]),
        ("SQL. SQL.", {"SQL": "sequel"}, [9, 3, 3]),
    ):
        quota = CountedQuota(1000)
        harness = speaking(quota, pronunciations)
        harness.text(text)
        harness.client(DONE)
        assert quota.charged == charged, (text, pronunciations)


def test_ipa_counts_by_its_symbols() -> None:
    info = dataclasses.replace(INFO, fields=INFO.fields | {"pronunciations"}, ipa_symbols=frozenset("wɪn"))
    quota = CountedQuota(1000)
    harness = speaking(quota, {"Ng": "/wɪnwɪn/", "Nguyen": "/wɪn/"}, info)
    harness.text("Ng and Nguyen and Ng.")
    harness.client(DONE)
    assert quota.charged == [21, 4 - 3 + 4]


def test_a_sentence_that_its_pronunciations_make_too_long_for_the_quota_fails_alone() -> None:
    quota = CountedQuota(100)
    harness = speaking(quota, {"it": "word " * 30})
    harness.text("One is here. Say it. Two is here. Say it. Three is here.")
    harness.client(DONE)
    harness.complete_all()
    (first, second) = harness.of(ServerError)
    for error, index in ((first, 1), (second, 3)):
        assert (error.code, error.fatal, error.retry_after_ms, error.sentence_index) == (
            "quota_exceeded",
            False,
            3000.0,
            index,
        )
    assert [request.text for request in harness.submitted] == ["One is here.", "Two is here.", "Three is here."]
    (done,) = harness.of(SessionDone)
    assert done.outcomes == ("complete", "error", "complete", "error", "complete")
    assert harness.session._contexts.pending_chars == 0


@given(
    texts=st.lists(st.sampled_from(["a ", "Say a now. ", "b a ", "Hello there. ", "a a a a a a a. "]), max_size=30),
    limit=st.integers(1, 2000),
    length=st.integers(1, 200),
    cancelled=st.booleans(),
)
@settings(max_examples=40)
def test_no_pronunciation_makes_more_speech_than_the_quota_allows(
    texts: list[str], limit: int, length: int, cancelled: bool
) -> None:
    quota = CountedQuota(limit)
    harness = speaking(quota, {"a": "x" * length})
    for text in texts:
        harness.text(text)
    if cancelled:
        harness.client(CANCEL)
    harness.client(DONE)
    harness.complete_all()
    assert sum(len(request.text) for request in harness.submitted) <= sum(quota.charged) <= limit
    assert harness.session._contexts.pending_chars == 0
    assert len(harness.of(AudioStart)) == len(harness.of(AudioDone))


def test_a_short_text_with_long_pronunciations_is_not_a_way_around_the_quota() -> None:
    """88 characters were 320 s of speech, for the price of 88 characters."""
    quota = CountedQuota(900)
    harness = speaking(quota, {"go": "b" * 200})
    harness.text("Go on. " * 12)
    harness.client(DONE)
    harness.complete_all()
    assert len(harness.submitted) == 4
    assert sum(len(request.text) for request in harness.submitted) <= 900
    assert len(harness.of(ServerError)) == 8
