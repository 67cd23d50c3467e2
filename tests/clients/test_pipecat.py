"""pipecat's OpenAI voice, which knows OpenAI's voice names only."""

from tests.clients.conftest import RunsProgram
from tests.clients.environments import python_of
from tests.clients.reference import PCM_BYTES_PER_S


def test_a_pipeline_speaks_two_sentences_without_an_error(server: str, program: RunsProgram) -> None:
    result = program(python_of("pipecat"), "pipecat_tts.py", server)
    assert result["rate_hz"] == [24_000]
    assert result["bytes"] > PCM_BYTES_PER_S
    assert "ErrorFrame" not in {**result["down"], **result["up"]}
    assert result["down"]["TTSStartedFrame"] >= 1
    assert result["down"]["TTSStoppedFrame"] >= 1
