"""Speaking through a server: sends text as it arrives, writes audio as it arrives, and sums up its continuity."""

import asyncio
import codecs
import os
import sys
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.playout import ContinuityReport, PlayoutLedger
from realtime_tts.client import Audio, ClientSession, connect
from realtime_tts.clock import MonotonicClock
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.messages import AudioDone, AudioStart, ServerError, ServerWarning, SessionDone

STDIO = "-"


class SayFailed(RealtimeTTSError):
    """The text was not spoken, or not all of it."""

    code = "say_failed"


async def text_source(text: str) -> AsyncIterator[str]:
    """The text itself, or for `-` standard input in the pieces in which it arrives."""
    if text != STDIO:
        yield text
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), 4096):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


async def speak(
    url: str, pieces: AsyncIterator[str], output: Path, config: dict[str, Any], report: Callable[[str], None]
) -> str:
    """Speaks one utterance into `output`, and returns a line that sums it up.

    Raises `SayFailed` if the server refuses, a sentence fails or there is no audio, and what `connect` raises.
    """
    clock = MonotonicClock()
    ledger = PlayoutLedger()
    given = {name: value for name, value in config.items() if value is not None}
    async with connect(url, **given) as session:
        started_s = clock.now_s()
        sending = asyncio.create_task(_send(session, pieces))
        failures: list[str] = []
        server: SessionDone | None = None
        rtf_wall_s = 0.0
        try:
            with _writer(output) as write:
                async for event in session.utterance():
                    match event:
                        case AudioStart():
                            report(f"  {event.sentence_text}")
                        case Audio():
                            now_s = clock.now_s()
                            audio_format = AudioFormat(Encoding.PCM, event.start.sample_rate)
                            duration_s = audio_format.seconds(audio_format.samples_in(len(event.data)))
                            ledger.record(arrived_at_s=now_s, duration_s=duration_s)
                            write(event.data, audio_format)
                        case AudioDone(metrics=metrics, duration_ms=duration_ms):
                            rtf_wall_s += (metrics.rtf or 0.0) * duration_ms / 1000
                        case ServerWarning(message=message):
                            report(f"  ({message})")
                        case ServerError(message=message, sentence_index=None):
                            raise SayFailed(message)
                        case ServerError(message=message):
                            failures.append(message)
                            report(f"  Error: {message}")
                        case SessionDone():
                            server = event
        finally:
            sending.cancel()
    continuity = ledger.report(started_at_s=started_s)
    if failures:
        raise SayFailed(f"not everything could be spoken (failed: {len(failures)}); the last: {failures[-1]}")
    if not continuity.packets:
        raise SayFailed("there was nothing to speak in this text")
    return _summary(continuity, server, rtf_wall_s, output)


async def _send(session: ClientSession, pieces: AsyncIterator[str]) -> None:
    async for piece in pieces:
        # Well below the limit of one message.  The protocol allows any division of the text.
        for start in range(0, len(piece), 16_384):
            await session.send_text(piece[start : start + 16_384])
    await session.done()


@contextmanager
def _writer(output: Path) -> Any:
    """A function that appends 16-bit PCM to `output`: raw to standard output, else as a wav file."""
    if str(output) == STDIO:

        def to_stdout(data: bytes, _audio_format: AudioFormat) -> None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

        yield to_stdout
        return
    file: wave.Wave_write | None = None
    try:

        def to_file(data: bytes, audio_format: AudioFormat) -> None:
            nonlocal file
            if file is None:
                file = wave.open(str(output), "wb")  # noqa: SIM115 - opened with the first audio, closed below
                file.setnchannels(audio_format.channels)
                file.setsampwidth(audio_format.bytes_per_sample)
                file.setframerate(audio_format.sample_rate_hz)
            file.writeframes(data)

        yield to_file
    finally:
        if file is not None:
            file.close()


def _summary(continuity: ContinuityReport, server: SessionDone | None, wall_s: float, output: Path) -> str:
    gaps = f"{continuity.underrun_count} gap{'' if continuity.underrun_count == 1 else 's'}"
    first = "" if continuity.ttfp_s is None else f" · first audio after {continuity.ttfp_s * 1000:.0f} ms"
    if server is not None and server.continuity.ttfa_ms is not None:
        first += f" (audible after {server.continuity.ttfa_ms:.0f} ms)"
    where = "standard output" if str(output) == STDIO else str(output)
    return (
        f"{continuity.audio_s:.2f} s of speech in {where}{first} · RTF {wall_s / continuity.audio_s:.2f}"
        f" · {gaps} (longest {continuity.max_underrun_s * 1000:.0f} ms)"
    )
