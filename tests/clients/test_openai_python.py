"""The `openai` package for Python."""

from tests.clients.conftest import RunsProgram
from tests.clients.environments import python_of
from tests.clients.reference import PCM_BYTES_PER_S, is_format


def test_all_voices_formats_and_models_work_with_their_defaults(server: str, program: RunsProgram) -> None:
    result = program(python_of("openai"), "openai_sdk.py", server)
    assert len(result["voices"]) == 13
    for voice, size in result["voices"].items():
        assert size > 0.2 * PCM_BYTES_PER_S, voice
    for name, begin in result["formats"].items():
        assert is_format(bytes.fromhex(begin), name), (name, begin)
    assert result["streamed"] > 0.5 * PCM_BYTES_PER_S
    assert result["events"] == ["speech.audio.delta", "speech.audio.done"]
    assert result["refusal"].startswith("voice: ")
    assert result["missing"] == "model_not_found"
    assert result["retrieved"] == "tts-1"
    assert "kokoro" in result["models"]

    for size in result["at_once"]:  # more than the machine may have capacity for
        assert size > 0.2 * PCM_BYTES_PER_S
