"""vLLM-Omni's example clients, unchanged."""

from pathlib import Path

from tests.clients.conftest import run_command
from tests.clients.environments import python_of, vllm_omni_examples
from tests.clients.reference import is_format, is_same_speech, spoken, wav_samples

TEXT = "The first sentence is short. The second one says a little more."
SENTENCES = ("The first sentence is short.", "The second one says a little more.")


def example(folder: Path, name: str, *arguments: str) -> str:
    return run_command(folder, python_of("vllm_omni"), vllm_omni_examples() / name, *arguments)


def stream(server: str, folder: Path, *arguments: str) -> tuple[str, list[bytes]]:
    url = server.replace("http:", "ws:") + "/v1/audio/speech/stream"
    output = example(folder, "streaming_speech_client.py", "--url", url, "--text", TEXT, *arguments)
    return output, [path.read_bytes() for path in sorted((folder / "streaming_tts_output").iterdir())]


def check_speech(server: str, received: list[bytes], **fields: object) -> None:
    for samples, text in zip(received, SENTENCES, strict=True):
        assert is_same_speech(samples, spoken(server, text, **fields)), text


def test_the_streaming_client_saves_each_sentence_in_the_format_that_it_asked_for(server: str, tmp_path: Path) -> None:
    for form in ("wav", "pcm", "mp3", "flac"):
        (folder := tmp_path / form).mkdir()
        output, files = stream(server, folder, "--response-format", form)
        assert "ERROR" not in output, output
        assert len(files) == 2, (form, output)
        for data in files:
            assert is_format(data, form), (form, data[:16])
            assert len(data) > 2_000, (form, len(data))


def test_the_streaming_client_hears_its_default_speaker(server: str, tmp_path: Path) -> None:
    _output, files = stream(server, tmp_path)
    check_speech(server, [wav_samples(data) for data in files], voice="Vivian")


def test_the_streaming_client_hears_the_voice_and_speed_that_it_asked_for(server: str, tmp_path: Path) -> None:
    _output, files = stream(server, tmp_path, "--speaker", "am_michael", "--speed", "1.25")
    check_speech(server, [wav_samples(data) for data in files], voice="am_michael", speed=1.25)


def test_the_streaming_client_receives_raw_pcm_as_it_is_made(server: str, tmp_path: Path) -> None:
    output, files = stream(server, tmp_path, "--stream-audio", "--response-format", "pcm")
    assert "ERROR" not in output, output
    check_speech(server, files, voice="Vivian")


def test_the_streaming_client_sends_word_by_word(server: str, tmp_path: Path) -> None:
    output, files = stream(server, tmp_path, "--simulate-stt", "--stt-delay", "0.02")
    assert "ERROR" not in output, output
    assert len(files) == 2, output


def test_the_http_client_saves_every_format(server: str, tmp_path: Path) -> None:
    for form in ("wav", "mp3", "flac", "pcm", "opus", "aac"):
        saved = tmp_path / f"speech.{form}"
        options = ("--api-base", server, "--text", TEXT, "--task-type", "CustomVoice")
        example(tmp_path, "openai_speech_client.py", *options, "--response-format", form, "--output", str(saved))
        assert is_format(saved.read_bytes(), form), form


def test_the_batch_client_saves_all_texts(server: str, tmp_path: Path) -> None:
    example(tmp_path, "batch_speech_client.py", "--api-base", server, "--texts", *SENTENCES)
    saved = sorted((tmp_path / "batch_output").iterdir())
    check_speech(server, [wav_samples(path.read_bytes()) for path in saved], voice="vivian")
