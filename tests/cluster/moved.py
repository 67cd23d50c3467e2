"""One sentence whose replica is lost while it speaks, and which another one continues."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from realtime_tts.clock import VirtualClock
from realtime_tts.cluster.router import ReplicatedEngine
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    EngineEvent,
    FinishReason,
    RequestFinished,
    Samples,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.stage import Model
from tests.cluster.stepped import SteppedEngine


@dataclass(frozen=True, slots=True)
class Moved:
    samples: Samples
    joint: int
    """Where the audio of the second replica begins."""
    request: SynthesisRequest
    """As the replicas got it first."""

    def step_at_joint(self) -> float:
        return float(np.abs(np.diff(self.samples[self.joint - 2 : self.joint + 3])).max())

    def usual_steps(self) -> float:
        """The largest of a thousand steps between samples of this speech."""
        return float(np.percentile(np.abs(np.diff(self.samples)), 99.9))


def speak_and_lose(build: Callable[[], Model], request: SynthesisRequest, packets: int) -> Moved:
    """Loses the replica that speaks when it has made so many packets."""
    engine = ReplicatedEngine(VirtualClock())
    replicas = [SteppedEngine(build=build) for _ in range(2)]
    for name, replica in zip("ab", replicas, strict=True):
        engine.add(name, replica)
    parts: list[Samples] = []
    ends: list[RequestFinished] = []

    def on_event(event: EngineEvent) -> None:
        if isinstance(event, AudioReady):
            parts.append(event.samples)
            engine.send(AudioSent(event.request_id, len(event.samples), 0.1))
        elif isinstance(event, RequestFinished):
            ends.append(event)

    engine.send(Submit(request), on_event)
    while len(parts) < packets:
        worked = sum(replica.step() for replica in replicas)
        assert worked, "the sentence is too short for this test"
    received = sum(len(part) for part in parts)
    assert not ends, "the sentence is too short for this test"
    next(replica for replica in replicas if replica.requests).lose()
    while sum(replica.step() for replica in replicas):
        pass
    (end,) = ends
    assert end.reason in (FinishReason.COMPLETE, FinishReason.TRUNCATED), end.error
    submitted = next(each.request for replica in replicas for each in replica.commands if isinstance(each, Submit))
    return Moved(np.concatenate(parts), received, submitted)
