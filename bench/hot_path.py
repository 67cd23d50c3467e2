"""Cost of a scheduling decision with many streams, and of sending one packet from the engine to the transport.

    python -m bench.hot_path

Prints medians in microseconds over many calls on this machine; nothing is loaded, and nothing leaves the process.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench import options, outputs, results
from bench.results import Result, Table
from bench.stub_engine import StubEngine
from bench.tables import as_text
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import AudioReady, EventSink, SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.load import Load
from realtime_tts.engine.scheduling.policy import SCHEDULERS, Candidate, Snapshot, StageView
from realtime_tts.frontends.dialects import ClientDialect
from realtime_tts.frontends.native.websocket import NativeFrontEnd
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import Configure, SessionInput, Text
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.runner import SessionRunner
from realtime_tts.session.session import Session

DECISIONS = 200
PACKETS = 5_000


def busy_snapshot(streams: int, *, shared_lane: bool) -> Snapshot:
    """Active streams with leads of 0 to 2 s, each with up to one chunk of frames to decode."""
    rng = np.random.default_rng(0)
    costs, decode_batch = tone.PROFILES["h200"]
    rows = [
        Candidate(float(lead_s), number, f"r{number}", int(pending), chunks=1)
        for number, (lead_s, pending) in enumerate(
            zip(rng.uniform(0, 2, streams), rng.integers(1, 25, streams), strict=True)
        )
    ]
    lane = "talker" if shared_lane else "code2wav"
    model = tone.build(costs=costs, shared_lane=shared_lane)
    load = Load(model.costs, model.chunk_plan, 0.08, 50, 50, decode_batch, model.stage_lanes)
    talker = StageView("talker", "talker", streams, False, rows)
    return Snapshot(0.0, load, (talker, StageView("code2wav", lane, decode_batch, True, rows)))


def median_us(call: Callable[[], object], times: int) -> float:
    durations_s = []
    for _ in range(times):
        start_s = time.perf_counter()
        call()
        durations_s.append(time.perf_counter() - start_s)
    return statistics.median(durations_s) * 1e6


def decision_us(streams: int, *, shared_lane: bool) -> float:
    """Median of our policy on the lane of the decoder."""
    snapshot = busy_snapshot(streams, shared_lane=shared_lane)
    policy = SCHEDULERS["deadline"].policy
    lane = snapshot.stages[-1].lane
    return median_us(lambda: policy(snapshot, lane), DECISIONS)


class _NullClient(NativeFrontEnd):
    """A client that accepts everything at once, so that only our own work is measured."""

    def __init__(self) -> None:
        self.frames = 0
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inputs: list[SessionInput] = [
            Configure(response_format="pcm", stream_audio=True),
            Text("One sentence here. And "),
        ]
        self._dialect = ClientDialect("bench", 1_000_000)

    async def receive(self) -> Iterable[SessionInput] | None:
        if self._inputs:
            return (self._inputs.pop(0),)
        await self._closed
        return None

    def send(self, frame: Frame) -> None:
        if frame.is_binary:
            self.frames += 1
            if self.frames == PACKETS:
                self._closed.set_result(None)

    def abort(self) -> None:
        pass


class _ImmediateEngine(StubEngine):
    """Sends all packets of a request at once."""

    def submit(self, request: SynthesisRequest, sink: EventSink) -> None:
        samples = tone.render(request)[:1920]
        for _ in range(PACKETS):
            sink(AudioReady(request.request_id, samples))


async def send_path_us() -> float:
    """µs of CPU time for a packet of 80 ms, from the engine's event to the transport."""
    clock = MonotonicClock()
    limits = SessionLimits(max_queued_messages=2 * PACKETS)
    engine = _ImmediateEngine()
    session = Session("bench", {"tone": engine.info}, limits, now_s=clock.now_s(), expires_at_unix_s=0.0)
    start_s = time.process_time()
    await SessionRunner(_NullClient(), {"tone": engine}, session, clock, limits).run()
    return (time.process_time() - start_s) / PACKETS * 1e6


def measure(arguments: Sequence[str] | None) -> Result:
    lanes = ("separate lane", False), ("shared lane", True)
    decisions = tuple(
        (streams, *(decision_us(streams, shared_lane=shared) for _name, shared in lanes))
        for streams in (64, 256, 1024, 4096)
    )
    best_us = min(asyncio.run(send_path_us()) for _ in range(3))
    return Result(
        bench="bench.hot_path",
        title="Cost of a scheduling decision and of sending a packet",
        headline=f"send path: {best_us:.1f} µs per packet",
        conditions=results.conditions("bench.hot_path", arguments),
        tables=(
            Table("One scheduling decision, µs", ("streams", *(name for name, _shared in lanes)), decisions),
            Table(
                "Sending one packet",
                ("from and to", "µs"),
                (("the engine's event to the transport, 80 ms of PCM", best_us),),
                f"The best of three series of {PACKETS} packets.",
            ),
        ),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options.make_parser("bench.hot_path", __doc__)
    outputs.add_outputs(parser)
    args = parser.parse_args(arguments)
    result = measure(arguments)
    print(as_text(result))
    outputs.write_outputs(args, [result])


if __name__ == "__main__":
    main()
