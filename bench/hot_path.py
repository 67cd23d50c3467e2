"""What a decision and a message cost: the scheduler at many streams, and the way of a packet to the socket.

    python -m bench.hot_path

Prints medians in microseconds over many calls on this machine; nothing is loaded, and nothing leaves the process.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from bench import result_page, results
from bench.results import Result, Table
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import AudioReady, EngineCommand, EngineStatus, EventSink, ModelInfo, Submit
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.chunking import Load
from realtime_tts.engine.scheduling.policy import SCHEDULERS, Candidate, Snapshot, StageView
from realtime_tts.frontends.native.encode import NativeEncoder
from realtime_tts.frontends.native.websocket import NativeFrontEnd
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import Configure, SessionInput, Text
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Session

DECISIONS = 200
PACKETS = 5_000


def busy_snapshot(streams: int, *, shared_lane: bool) -> Snapshot:
    """So many speaking streams, with leads of 0 to 2 s and up to a chunk of frames that wait to be decoded."""
    rng = np.random.default_rng(0)
    costs, decode_batch = tone.PROFILES["h200"]
    model = tone.build(costs=costs)
    rows = [
        Candidate(float(lead_s), number, f"r{number}", int(pending), chunks=1)
        for number, (lead_s, pending) in enumerate(
            zip(rng.uniform(0, 2, streams), rng.integers(1, 25, streams), strict=True)
        )
    ]
    load = Load(model.costs, model.chunk_plan, 0.08, 50, 50, decode_batch, shared_lane=shared_lane)
    lane = "talker" if shared_lane else "code2wav"
    talker = StageView("talker", "talker", streams, False, rows)
    return Snapshot(0.0, load, (talker, StageView("code2wav", lane, decode_batch, True, rows)))


def median_us(call: Callable[[], object], times: int) -> float:
    measured = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        measured.append(time.perf_counter() - began)
    return statistics.median(measured) * 1e6


def decision_us(streams: int, *, shared_lane: bool) -> float:
    """Median of our policy on the decoder's lane."""
    snapshot = busy_snapshot(streams, shared_lane=shared_lane)
    policy = SCHEDULERS["deadline"].policy
    lane = snapshot.stages[-1].lane
    return median_us(lambda: policy(snapshot, lane), DECISIONS)


class _Sink(NativeFrontEnd):
    """A client that takes everything at once, so that what is left is our own work."""

    def __init__(self) -> None:
        self.frames = 0
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inputs: list[SessionInput] = [
            Configure(response_format="pcm", stream_audio=True),
            Text("One sentence here. And "),
        ]
        self._encoder = NativeEncoder("bench")

    async def receive(self) -> Iterable[SessionInput] | None:
        if self._inputs:
            return (self._inputs.pop(0),)
        await self._closed
        return None

    async def send(self, frame: Frame) -> bool:
        if frame.is_binary:
            self.frames += 1
            if self.frames == PACKETS:
                self._closed.set_result(None)
        return True

    def abort(self) -> None:
        pass


class _Echo:
    """An engine that costs nothing: gives the first request all its packets at once."""

    info: ModelInfo = tone.info()

    def send(self, command: EngineCommand, sink: EventSink | None = None) -> None:
        if isinstance(command, Submit):
            assert sink is not None
            samples = tone.render(command.request)[:1920]
            for _ in range(PACKETS):
                sink(AudioReady(command.request.request_id, samples))

    def status(self) -> EngineStatus:
        return EngineStatus(ready=True, reason="ready")


async def send_path() -> float:
    """µs of processor time for a packet of 80 ms, from the engine's event to the transport."""
    clock = MonotonicClock()
    limits = SessionLimits(max_queued_messages=2 * PACKETS)
    engine = _Echo()
    session = Session("bench", {"tone": engine.info}, limits, now_s=clock.now_s(), expires_at_unix_s=0.0)
    began = time.process_time()
    await SessionRunner(_Sink(), {"tone": engine}, session, clock, limits).run()
    return (time.process_time() - began) / PACKETS * 1e6


def measured(arguments: Sequence[str] | None) -> Result:
    lanes = ("a lane of its own", False), ("a shared lane", True)
    decisions = tuple(
        (streams, *(decision_us(streams, shared_lane=shared) for _name, shared in lanes))
        for streams in (64, 256, 1024, 4096)
    )
    best_us = min(asyncio.run(send_path()) for _ in range(3))
    return Result(
        bench="bench.hot_path",
        title="What do a decision and a message cost?",
        headline=f"send path: {best_us:.1f} µs a packet",
        conditions=results.conditions("bench.hot_path", arguments),
        tables=(
            Table("One decision of the scheduler, µs", ("streams", *(name for name, _shared in lanes)), decisions),
            Table(
                "The way of a packet",
                ("from and to", "µs"),
                (("the engine's event to the transport, 80 ms of PCM", best_us),),
                "The best of three times so many packets.",
            ),
        ),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures, with the conditions")
    args = parser.parse_args(arguments)
    result = measured(arguments)
    print(result_page.as_text(result))
    if args.json:
        args.json.write_bytes(results.dumps(result))


if __name__ == "__main__":
    main()
