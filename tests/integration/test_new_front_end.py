"""A front end for another wire protocol: one small file, without changes below it."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Session
from tests.fakes import spoken_pcm, until
from tests.integration import line_front_end
from tests.integration.line_front_end import LineFrontEnd


@asynccontextmanager
async def line_server() -> AsyncIterator[tuple[int, EngineThread]]:
    clock, limits, engine = MonotonicClock(), SessionLimits(), EngineThread(tone.build(), MonotonicClock())
    engine.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        models = {"tone": engine.info}
        session = Session("line", models, limits, now_s=clock.now_s(), expires_at_unix_s=0.0)
        await SessionRunner(LineFrontEnd(reader, writer), {"tone": engine}, session, clock, limits).run()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], engine
    await engine.stop()


def test_the_front_end_has_fewer_than_60_lines() -> None:
    assert len(Path(line_front_end.__file__).read_text("utf-8").splitlines()) < 60


async def test_the_front_end_speaks_reports_errors_and_cancels() -> None:
    async with line_server() as (port, engine), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"VOICE tone_high\nSAY Hello there. How\nSHOUT loud\nSAY are you?\nEND\n")
        lines: list[str] = []
        while not lines or lines[-1] != "DONE":
            lines.append((await reader.readline()).decode().rstrip("\n"))
        words = [line.split(" ", 1) for line in lines]
        assert [word[1] for word in words if word[0] == "SENTENCE"] == ["Hello there.", "How are you?"]
        assert [word[1] for word in words if word[0] == "ERROR"] == ["invalid_message"]
        audio = b"".join(base64.b64decode(word[1]) for word in words if word[0] == "AUDIO")
        assert audio == b"".join(spoken_pcm(text, voice="tone_high") for text in ("Hello there.", "How are you?"))
        writer.write(b"SAY A sentence that is stopped.\nSTOP\nEND\n")
        while (await reader.readline()) != b"DONE\n":
            pass
        writer.close()
        await writer.wait_closed()
        await until(lambda: engine.status().active_requests == 0)
