"""livekit-agents with its OpenAI plugin."""

from tests.clients.conftest import RunsProgram
from tests.clients.environments import python_of
from tests.clients.reference import PCM_BYTES_PER_S, spoken


def test_every_format_whole_and_by_sentence_has_the_length_of_the_speech(server: str, program: RunsProgram) -> None:
    result = program(python_of("livekit"), "livekit_tts.py", server)
    expected_s = len(spoken(server, "Hello from the agent. And a second sentence.", voice="ash")) / PCM_BYTES_PER_S
    assert len(result) == 13
    for name, duration_s in result.items():
        assert abs(duration_s - expected_s) < 0.3 * expected_s, (name, duration_s, expected_s)
