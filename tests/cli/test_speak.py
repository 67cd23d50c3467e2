"""Speaking through a server: text and audio are streamed, and errors are reported."""

import asyncio
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from realtime_tts.cli import speak
from realtime_tts.engine.models import tone
from tests.fakes import raises_for, spoken_pcm, wrapped
from tests.serving import tone_server


async def pieces(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text


def frames_of(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        return bytes(file.readframes(file.getnframes()))


async def test_the_file_contains_exactly_the_audio_of_the_text(tmp_path: Path) -> None:
    output, lines = tmp_path / "a.wav", list[str]()
    async with tone_server() as (url, _):
        summary = await speak.speak(url, pieces("Hello wor", "ld. How are", " you?"), output, {}, lines.append)
    assert frames_of(output) == spoken_pcm("Hello world.") + spoken_pcm("How are you?")
    assert lines == ["  Hello world.", "  How are you?"]
    assert "s of speech" in summary
    assert "gap" in summary


async def test_audio_arrives_while_the_text_is_still_written(tmp_path: Path) -> None:
    first_sentence = asyncio.Event()

    async def slow_writer() -> AsyncIterator[str]:
        yield "The first sentence. And "
        await asyncio.wait_for(first_sentence.wait(), 20)
        yield "the second."

    def report(line: str) -> None:
        if "first" in line:
            first_sentence.set()

    async with tone_server() as (url, _):
        await speak.speak(url, slow_writer(), tmp_path / "a.wav", {"voice": "tone_high"}, report)
    expected = spoken_pcm("The first sentence.", voice="tone_high") + spoken_pcm("And the second.", voice="tone_high")
    assert frames_of(tmp_path / "a.wav") == expected


@pytest.mark.slow
async def test_a_text_longer_than_a_message_is_sent_in_several(tmp_path: Path) -> None:
    text = "This is said again and again. " * 600
    async with tone_server() as (url, _):
        await speak.speak(url, pieces(text), tmp_path / "a.wav", {"speed": 4.0}, lambda _line: None)
    assert len(frames_of(tmp_path / "a.wav")) == 600 * len(spoken_pcm("This is said again and again.", speed=4.0))


async def test_no_audio_is_an_error_and_creates_no_file(tmp_path: Path) -> None:
    async with tone_server() as (url, _):
        with pytest.raises(speak.SayFailed, match="no voice 'nobody'"):
            await speak.speak(url, pieces("..."), tmp_path / "a.wav", {"voice": "nobody"}, lambda _line: None)
        with pytest.raises(speak.SayFailed):
            await speak.speak(url, pieces("..."), tmp_path / "a.wav", {}, lambda _line: None)
    assert not (tmp_path / "a.wav").exists()


async def test_a_sentence_that_fails_is_reported_and_the_others_are_in_the_file(tmp_path: Path) -> None:
    lines: list[str] = []
    model = wrapped(tone.build(max_batch=1), "talker", raises_for("Two is bad."))
    async with tone_server(model) as (url, _):
        with pytest.raises(speak.SayFailed, match="not everything could be spoken"):
            await speak.speak(
                url, pieces("One is good. Two is bad. Three is good."), tmp_path / "a.wav", {}, lines.append
            )
    assert frames_of(tmp_path / "a.wav") == spoken_pcm("One is good.") + spoken_pcm("Three is good.")
    assert any("failed on this sentence" in line for line in lines)


async def test_text_on_the_command_line_is_not_changed() -> None:
    assert [piece async for piece in speak.text_source("Hello - world")] == ["Hello - world"]
