"""The side of the replica: health, metrics, and what a lost server leaves."""

import aiohttp

from realtime_tts.clock import MonotonicClock
from realtime_tts.cluster import wire
from realtime_tts.cluster.host import ReplicaHost, listening
from realtime_tts.engine.api import Submit
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from tests.cluster.hosted import TOKEN, hosted
from tests.fakes import request, until


async def test_it_answers_health_checks_and_metrics_without_a_token() -> None:
    engine = EngineThread(tone.build(), MonotonicClock())
    host = ReplicaHost(engine, TOKEN, metrics_text=lambda: b"metrics")
    async with listening(host, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        for path, expected in {"/healthz": '{"status": "ok"}', "/metrics": "metrics"}.items():
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                assert (response.status, await response.text()) == (200, expected)


async def test_a_server_that_disconnects_ends_its_streams() -> None:
    slow = tone.build(costs=tone.ToneCosts(a0_s=0.02))
    async with hosted(slow) as (url, engine), aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with session.ws_connect(url + wire.PATH, headers=headers) as websocket:
            sentences = [Submit(request(number, "A long sentence that takes a while.")) for number in range(3)]
            await websocket.send_bytes(wire.encode(sentences))
            await until(lambda: engine.status().active_requests == 3)
        await until(lambda: engine.status().active_requests == 0)
