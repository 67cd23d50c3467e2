"""Simulation of speakers who send their next utterance while the present one is played.

    python -m bench.speakers
    python -m bench.speakers -c 32 --profile h20 --utterances 4 --think 3

Each user has conversations of several utterances, and sends the next one as soon as the first audio of the present one
is received.  The first utterance of a conversation is that of a new listener: if it is refused, the user retries.  An
utterance that was sent ahead and refused is lost.  It is the code that serves, in virtual time (bench/simulate.py).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from bench import options
from bench.options import positive, positive_int
from bench.simulate import RETRY_S, Device, device_of
from bench.summary import ms
from bench.tables import aligned
from bench.texts import pick_text
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    EndStream,
    EngineEvent,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.simulate import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersPlan:
    users: int = 32
    utterances: int = 4
    """In one conversation."""
    think_s: float = 3.0
    """The mean pause between two conversations of a user."""
    duration_s: float = 120.0
    seed: int = 0


@dataclass(slots=True)
class Conversation:
    """One listener: its utterances are played one after the other."""

    stream_id: str
    first_attempt_s: float
    """When its user first tried to begin it."""
    texts: list[str]
    begun: int = 0
    """Utterances submitted."""
    ended: int = 0
    playout_end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Speakers:
    """What the users noticed.  Times in seconds."""

    conversations: int
    refused: int
    """New listeners refused; they retry."""
    sent_ahead: int
    lost: int
    """Of those sent ahead, the refused ones."""
    waits_s: tuple[float, ...]
    """Of new listeners that were accepted: from the submission to the first audio."""
    delays_s: tuple[float, ...]
    """The same from the first attempt, with the retries."""
    pauses_s: tuple[float, ...]
    """Between the end of an utterance's playback and the first audio of the next one."""
    gaps_s: tuple[float, ...]
    """Of every packet in mid-utterance, by how much it was late."""


class SpeakersLoad:
    """All users in virtual time.  Audio arrives as soon as it is made: there is no network."""

    def __init__(self, device: Device, plan: SpeakersPlan, config: EngineConfig) -> None:
        self._plan = plan
        self._rng = Random(plan.seed)
        self._simulation = Simulation(device.build, emit=self._emit, config=config)
        self._requests: dict[str, tuple[Conversation, int, float]] = {}
        """Conversation, number of the utterance and time of submission of each request in progress."""
        self._begun_requests: set[str] = set()
        self._streams = 0
        self._conversations = self._refused = self._sent_ahead = self._lost = 0
        self._waits_s: list[float] = []
        self._delays_s: list[float] = []
        self._pauses_s: list[float] = []
        self._gaps_s: list[float] = []

    def run(self) -> Speakers:
        for _user in range(self._plan.users):
            self._begin_after(self._rng.uniform(0.0, self._plan.think_s + 5.0))
        self._simulation.run(self._plan.duration_s)
        return Speakers(
            self._conversations,
            self._refused,
            self._sent_ahead,
            self._lost,
            tuple(self._waits_s),
            tuple(self._delays_s),
            tuple(self._pauses_s),
            tuple(self._gaps_s),
        )

    def _begin_after(self, delay_s: float, refused: Conversation | None = None) -> None:
        """A new conversation, or another attempt to begin one that was refused."""
        at_s = self._simulation.clock.now_s() + delay_s
        stream_id = f"s{self._streams}"
        if refused is None:
            texts = [pick_text(self._rng) for _ in range(self._plan.utterances)]
            conversation = Conversation(stream_id, at_s, texts)
        else:
            conversation = Conversation(stream_id, refused.first_attempt_s, refused.texts)
        self._streams += 1
        self._simulation.at(at_s, partial(self._submit_next, conversation))

    def _submit_next(self, conversation: Conversation) -> None:
        number = conversation.begun
        conversation.begun += 1
        name = f"{conversation.stream_id}/{number}"
        self._requests[name] = conversation, number, self._simulation.clock.now_s()
        self._sent_ahead += number > 0
        request = SynthesisRequest(
            name, conversation.stream_id, conversation.texts[number], "tone_low", utterance_index=number
        )
        self._simulation.engine.handle(Submit(request))

    def _emit(self, events: list[EngineEvent]) -> None:
        now_s = self._simulation.clock.now_s()
        for event in events:
            if isinstance(event, AudioReady):
                self._on_audio(event, now_s)
            elif isinstance(event, RequestFinished):
                self._on_end(event, now_s)

    def _on_audio(self, event: AudioReady, now_s: float) -> None:
        conversation, number, submitted_s = self._requests[event.request_id]
        end_s = conversation.playout_end_s
        if event.request_id not in self._begun_requests:
            self._begun_requests.add(event.request_id)
            if number == 0:
                self._conversations += 1
                self._waits_s.append(now_s - submitted_s)
                self._delays_s.append(now_s - conversation.first_attempt_s)
            elif end_s is not None:
                self._pauses_s.append(max(0.0, now_s - end_s))
            if conversation.begun < len(conversation.texts):
                self._simulation.at(now_s, partial(self._submit_next, conversation))
        elif end_s is not None:
            self._gaps_s.append(max(0.0, now_s - end_s))
        audio_s = len(event.samples) / tone.SAMPLE_RATE_HZ
        conversation.playout_end_s = max(now_s, end_s or now_s) + audio_s
        lead_s = conversation.playout_end_s - now_s
        self._simulation.engine.handle(AudioSent(event.request_id, len(event.samples), lead_s))

    def _on_end(self, event: RequestFinished, now_s: float) -> None:
        conversation, number, _submitted_s = self._requests.pop(event.request_id)
        conversation.ended += 1
        if event.error is not None and number == 0:
            self._refused += 1
            self._end(conversation, now_s)
            self._begin_after(RETRY_S, conversation)
            return
        if event.error is not None:
            self._lost += 1
            del conversation.texts[conversation.begun :]  # the user notices that a part is missing, and stops
        if conversation.ended == len(conversation.texts):
            end_s = max(now_s, conversation.playout_end_s or now_s)
            self._end(conversation, end_s)
            self._begin_after(end_s - now_s + self._rng.expovariate(1.0 / self._plan.think_s))

    def _end(self, conversation: Conversation, at_s: float) -> None:
        self._simulation.at(at_s, partial(self._simulation.engine.handle, EndStream(conversation.stream_id)))


def percentiles(values_s: Sequence[float]) -> str:
    """p50/p95/p99 in milliseconds."""
    if not values_s:
        return "-"
    ordered = sorted(values_s)
    return "/".join(
        ms(ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]) for share in (0.5, 0.95, 0.99)
    )


def row(label: str, found: Speakers) -> list[str]:
    attempts = found.refused + found.conversations
    return [
        label,
        f"{found.lost} of {found.sent_ahead}",
        percentiles(found.waits_s),
        percentiles(found.delays_s),
        percentiles(found.pauses_s),
        percentiles(found.gaps_s),
        f"{found.conversations}",
        f"{found.refused} of {attempts}",
    ]


COLUMNS = (
    "",
    "lost, of sent ahead",
    "new listeners' wait p50/p95/p99 ms",
    "with retries",
    "pause between utterances",
    "gap in an utterance",
    "conversations",
    "refused",
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.speakers", __doc__)
    parser.add_argument("-c", "--users", type=positive_int, nargs="+", default=[32], help="users")
    parser.add_argument("--utterances", type=positive_int, nargs="+", default=[1, 4], help="of one conversation")
    parser.add_argument("--think", type=positive, default=3.0, help="mean pause between conversations, in seconds")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h20", help="device costs")
    parser.add_argument("--max-wait", type=float, default=0.5, help="refuse longer waits, in seconds; -1 never refuses")
    parser.add_argument("--duration", type=positive, default=120.0, help="simulated seconds")
    parser.add_argument("--seeds", type=positive_int, default=3, help="runs of each plan, with the seeds 0, 1, ...")
    return parser.parse_args(arguments)


def merged(runs: Sequence[Speakers]) -> Speakers:
    return Speakers(
        conversations=sum(run.conversations for run in runs),
        refused=sum(run.refused for run in runs),
        sent_ahead=sum(run.sent_ahead for run in runs),
        lost=sum(run.lost for run in runs),
        waits_s=tuple(value for run in runs for value in run.waits_s),
        delays_s=tuple(value for run in runs for value in run.delays_s),
        pauses_s=tuple(value for run in runs for value in run.pauses_s),
        gaps_s=tuple(value for run in runs for value in run.gaps_s),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    config = EngineConfig(max_wait_s=None if args.max_wait < 0 else args.max_wait)
    device = device_of(args.profile, shared_lane=False)
    lines = [list(COLUMNS)]
    for users in args.users:
        for utterances in args.utterances:
            plan = SpeakersPlan(users=users, utterances=utterances, think_s=args.think, duration_s=args.duration)
            plans = (replace(plan, seed=seed) for seed in range(args.seeds))
            found = merged([SpeakersLoad(device, each, config).run() for each in plans])
            lines.append(row(f"c={users}, {utterances} utterances", found))
    print(aligned(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
