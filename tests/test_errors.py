"""Every deliberate failure has a wire form of its own, and the close codes are ones that WebSocket allows."""

import pytest

from realtime_tts import errors
from realtime_tts.errors import RealtimeTTSError


def every(kind: type[RealtimeTTSError] = RealtimeTTSError) -> list[type[RealtimeTTSError]]:
    return [kind] + [each for sub in kind.__subclasses__() if sub.__module__ == errors.__name__ for each in every(sub)]


@pytest.mark.parametrize("error", every(), ids=lambda error: error.__name__)
def test_codes_are_words_that_a_client_can_compare(error: type[RealtimeTTSError]) -> None:
    assert error.code.isascii()
    assert error.code.replace("_", "").islower()
    assert error("why").message == "why"


@pytest.mark.parametrize("error", every(), ids=lambda error: error.__name__)
def test_close_codes_are_sendable(error: type[RealtimeTTSError]) -> None:
    # RFC 6455, 7.4: 1005, 1006 and 1015 are never sent.
    assert error.close_code in (None, 1000, 1001, 1007, 1008, 1009, 1011, 1012, 1013)


def test_a_failed_sentence_leaves_its_session_open() -> None:
    assert all(error.close_code is None for error in every(errors.SynthesisError))


def test_text_that_can_never_fit_is_not_to_be_sent_again_and_text_that_must_wait_is() -> None:
    assert not errors.TextTooLong.retryable
    assert errors.TooMuchUnspoken.retryable
    assert errors.TooMuchUnspoken.code == errors.TextTooLong.code == "text_too_long"
