"""A simulated load of answers, with what each listener received."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioPart,
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineEvent,
    ImagePart,
    Part,
    RequestFinished,
    Role,
    Samples,
    SubmitAnswer,
    TextFinished,
    TextPart,
    TextReady,
    TextSampling,
    Turn,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking import tone as thinking
from realtime_tts.engine.thinking.simulate import AnswerSimulation
from realtime_tts.engine.thinking.text_lead import Underrun

LEAN = tone.ToneCosts(a0_s=0.008, b0_s=0.00025, prefill_s=0.010, a1_s=0.004, b1_s=0.00012)
LEAN_THINKER = thinking.ThinkerCosts(base_s=0.008, per_row_s=0.0003, per_prompt_token_s=0.0001)
"""Costs of an H200 with CUDA graphs and asynchronous output, as the design assumes them."""

FREE_THINKER = thinking.ThinkerCosts()


def turn(*parts: Part | str) -> Turn:
    """A turn of the user."""
    return Turn(Role.USER, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def audio(seconds: float) -> AudioPart:
    return AudioPart(np.zeros(int(16_000 * seconds), np.float32), f"audio {seconds}")


def image(width: int, height: int) -> ImagePart:
    return ImagePart(np.zeros((height, width, 3), np.uint8), f"image {width} {height}")


def ask(
    name: str,
    *parts: Part | str,
    voice: str | None = "tone_low",
    stream: str | None = None,
    sampling: TextSampling | None = None,
) -> AnswerRequest:
    return AnswerRequest(name, stream or name, (turn(*parts),), voice, text_sampling=sampling or TextSampling())


@dataclass(slots=True)
class Received:
    """What one listener received."""

    asked_s: float
    events: list[EngineEvent] = field(default_factory=list)
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    ended_s: float | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextReady))

    @property
    def samples(self) -> Samples:
        chunks = [event.samples for event in self.events if isinstance(event, AudioReady)]
        return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)

    @property
    def text_ends(self) -> list[TextFinished]:
        return [event for event in self.events if isinstance(event, TextFinished)]

    @property
    def ends(self) -> list[RequestFinished]:
        return [event for event in self.events if isinstance(event, RequestFinished)]

    @property
    def end(self) -> RequestFinished:
        (end,) = self.ends
        return end


class Answers:
    """All listeners of a simulation.  Audio is sent as soon as it is made."""

    def __init__(
        self,
        *,
        costs: tone.ToneCosts = LEAN,
        thinker_costs: thinking.ThinkerCosts = LEAN_THINKER,
        config: EngineConfig | None = None,
        bounded: bool = True,
        words: Callable[..., str] = thinking.answer,
        frames_per_token: float = tone.FRAMES_PER_TOKEN,
        positions: int = 1 << 20,
    ) -> None:
        self.received: dict[str, Received] = {}
        self.underruns: list[Underrun] = []
        self.models: list[Model] = []
        self.thinkers: list[thinking.ToneThinker] = []

        def build(spend: Callable[[float], None]) -> Model:
            self.models.append(
                tone.build(
                    costs=costs,
                    decode_batch=16,
                    max_batch=256,
                    frames_per_token=frames_per_token,
                    answers=True,
                    wait_s=spend,
                )
            )
            return self.models[-1]

        def make_thinker(spend: Callable[[float], None]) -> thinking.ToneThinker:
            self.thinkers.append(thinking.ToneThinker(thinker_costs, spend, words=words, positions=positions))
            return self.thinkers[-1]

        self.simulation = AnswerSimulation(
            build, make_thinker, thinking.ToneChat(), emit=self._emit, config=config, bounded=bounded, observer=self
        )

    def on_underrun(self, underrun: Underrun) -> None:
        self.underruns.append(underrun)

    def ask(self, at_s: float, request: AnswerRequest) -> None:
        def submit() -> None:
            self.received[request.request_id] = Received(at_s)
            self.simulation.send(SubmitAnswer(request))

        self.simulation.at(at_s, submit)

    def cancel(self, at_s: float, name: str) -> None:
        self.simulation.at(at_s, lambda: self.simulation.send(Cancel(name)))

    def leave(self, at_s: float, stream_id: str) -> None:
        self.simulation.at(at_s, lambda: self.simulation.send(EndStream(stream_id)))

    def run(self, until_s: float = 600.0) -> None:
        self.simulation.run(until_s)

    def _emit(self, event: EngineEvent) -> None:
        now_s = self.simulation.clock.now_s()
        received = self.received[event.request_id]
        assert not received.ends, f"{event} after the end of its request"
        received.events.append(event)
        if isinstance(event, AudioReady):
            received.ledger.record(arrived_at_s=now_s, duration_s=len(event.samples) / tone.SAMPLE_RATE_HZ)
            self.simulation.send(AudioSent(event.request_id, len(event.samples), received.ledger.lead_s(now_s)))
        elif isinstance(event, RequestFinished):
            received.ended_s = now_s

    def ttfp_s(self) -> list[float]:
        reports = [each.ledger.report(each.asked_s) for each in self.received.values()]
        return [report.ttfp_s for report in reports if report.ttfp_s is not None]

    def worst_underruns_s(self) -> list[float]:
        return [each.ledger.report().max_underrun_s for each in self.received.values()]

    def rtf(self) -> list[float]:
        return [
            (each.ended_s - each.asked_s) * tone.SAMPLE_RATE_HZ / len(each.samples)
            for each in self.received.values()
            if each.ended_s is not None and len(each.samples)
        ]


def spoken(text: str, voice: str = "tone_low", frames_per_token: float = tone.FRAMES_PER_TOKEN) -> Samples:
    """The audio of an answer."""
    return tone.decode(tone.answer_codes(thinking.to_ids(text), voice, frames_per_token))
