"""What waits to be sent goes out as one message, in order."""

import asyncio

from realtime_tts.cluster import wire
from realtime_tts.cluster.outbox import Outbox
from realtime_tts.engine.api import Cancel, EngineCommand


async def test_values_put_at_once_or_during_a_write_are_one_message() -> None:
    outbox: Outbox[EngineCommand] = Outbox()
    sent: list[list[str]] = []
    may_send = asyncio.Event()

    async def send(data: bytes) -> None:
        sent.append([command.request_id for command in wire.decode_commands(data) if isinstance(command, Cancel)])
        await may_send.wait()

    writing = asyncio.create_task(outbox.write(send))
    for name in ("a", "b"):
        outbox.put(Cancel(name))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for name in ("c", "d"):
        outbox.put(Cancel(name))
    may_send.set()
    while len(sent) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    writing.cancel()
    assert sent == [["a", "b"], ["c", "d"]]
