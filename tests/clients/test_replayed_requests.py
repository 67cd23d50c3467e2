"""The exact requests of clients that are too large to install here, such as Open WebUI 0.12.4 and openai_tts."""

from typing import Any

from tests.clients.reference import PCM_BYTES_PER_S, get, is_format, post

OPENAI_VOICES = {
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
}


def test_open_webui_lists_models_and_voices_and_speaks(server: str) -> None:
    models: list[dict[str, Any]] = get(f"{server}/v1/audio/models")["models"]
    voices = {voice["id"]: voice["name"] for voice in get(f"{server}/v1/audio/voices")["voices"]}
    assert "kokoro" in {model["id"] for model in models}
    assert set(voices) >= OPENAI_VOICES | {"af_heart"}
    for voice in ("alloy", "af_heart"):
        audio = post(f"{server}/v1/audio/speech", {"model": "tts-1", "input": "Hello, *you*.", "voice": voice})
        assert is_format(audio, "mp3"), voice


def test_the_openai_tts_integration_of_home_assistant_finds_voices_and_speaks(server: str) -> None:
    listed = get(f"{server}/v1/audio/voices")["voices"]
    found = {entry.get("id") or entry.get("voice_id") or entry.get("value") for entry in listed}
    assert found >= OPENAI_VOICES
    body = {"model": "tts-1", "input": "The light is on.", "voice": "shimmer", "response_format": "mp3", "speed": 1.0}
    assert is_format(post(f"{server}/v1/audio/speech", body), "mp3")


def test_the_benchmark_of_vllm_omni_receives_raw_pcm_of_the_default_voice(server: str) -> None:
    """Backend `openai-audio-speech` of vLLM-Omni 0.30.0 (vllm_omni/benchmarks/patch/patch.py)."""
    body = {"model": "kokoro", "input": "How are you today?", "stream": True, "stream_format": "audio"}
    audio = post(f"{server}/v1/audio/speech", {**body, "response_format": "pcm"})
    assert is_format(audio, "pcm")
    assert len(audio) > 0.8 * PCM_BYTES_PER_S


def test_sillytavern_and_librechat_speak_with_their_defaults(server: str) -> None:
    silly = {"provider": "openai", "model": "tts-1", "input": "Hello.", "voice": "onyx", "response_format": "mp3"}
    libre = {"model": "tts-1", "input": "Hello.", "backend": "openai"}
    for body in (silly, {**silly, "speed": 1}, libre):
        assert is_format(post(f"{server}/v1/audio/speech", body), "mp3"), body
