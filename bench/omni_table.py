"""Simulation of a model that answers, with a mechanism more in each row of the table.

    python -m bench.omni_table
    python -m bench.omni_table -c 64 --gap 0.03

A Thinker writes an answer, a Talker and a Code2Wav speak it, each on a device of its own.  The rows have the mechanisms
of the table that vLLM-Omni published for Qwen3-Omni, in its order, and after them the bound on a Thinker's step, which
is ours.  It is the code that serves, in virtual time: the costs of the steps are assumptions, stated above the table,
and nothing here was measured on a GPU.  All users ask once, --gap seconds apart.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bench import options, outputs, results
from bench.results import Result, Table
from bench.tables import as_text
from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.engine.api import (
    AnswerRequest,
    AudioReady,
    AudioSent,
    EngineEvent,
    RequestFinished,
    Role,
    Submit,
    SubmitAnswer,
    SynthesisRequest,
    TextPart,
    TextReady,
    Turn,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model
from realtime_tts.engine.thinking import tone as thinking
from realtime_tts.engine.thinking.simulate import AnswerSimulation

PROMPT_TOKENS = 300
ANSWER_TOKENS = 60
FRAMES_PER_TOKEN = 3.2
"""15.4 s of audio for an answer of 60 tokens."""
ANSWER_FRAMES = round(ANSWER_TOKENS * FRAMES_PER_TOKEN)
DECODE_BATCH = 16


@dataclass(frozen=True, slots=True)
class Costs:
    thinker: thinking.ThinkerCosts
    speech: tone.ToneCosts

    def __str__(self) -> str:
        speech, thinker = self.speech, self.thinker
        thinking_line = f"{_line(thinker.base_s, thinker.per_row_s)} + {1e6 * thinker.per_prompt_token_s:g} us"
        speech_line = f"{_line(speech.a0_s, speech.b0_s)} + {1000 * speech.prefill_s:g} ms a prompt"
        decode_line = _line(speech.a1_s, speech.b1_s)
        return f"Thinker {thinking_line} a prompt token, Talker {speech_line}, Code2Wav {decode_line}"


def _line(base_s: float, per_unit_s: float) -> str:
    return f"{1000 * base_s:g} + {1000 * per_unit_s:g} n ms"


EAGER = Costs(
    thinking.ThinkerCosts(0.030, 0.0010, 0.0001),
    tone.ToneCosts(a0_s=0.040, b0_s=0.0015, prefill_s=0.010, a1_s=0.012, b1_s=0.0003),
)
GRAPHS = Costs(
    thinking.ThinkerCosts(0.009, 0.0004, 0.0001),
    tone.ToneCosts(a0_s=0.009, b0_s=0.00035, prefill_s=0.010, a1_s=0.005, b1_s=0.00012),
)
ASYNCHRONOUS = Costs(
    thinking.ThinkerCosts(0.008, 0.0003, 0.0001),
    tone.ToneCosts(a0_s=0.008, b0_s=0.00025, prefill_s=0.010, a1_s=0.004, b1_s=0.00012),
)
"""Without the copies of hidden states between stages, and with outputs that are copied while the next step runs."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    costs: Costs
    whole: bool = False
    """Each stage waits for the whole output of the one before."""
    bounded: bool = False
    """A Thinker's step stays within a frame's playing time while listeners need tokens."""
    replicas: int = 1
    """Of the Talker and of Code2Wav."""
    published: str = ""
    """Requests a second, mean TTFP in ms and RTF that vLLM-Omni published for c = 64 on three GPUs."""


ROWS = (
    Row("batches, whole outputs", EAGER, whole=True, published="2.2 / 5884 / 1.15"),
    Row("+ CUDA graphs", GRAPHS, whole=True, published="8.6 / 2790 / 0.59"),
    Row("+ chunk handoff", GRAPHS, published="9.3 / 655 / 0.63"),
    Row("+ asynchronous output", ASYNCHRONOUS, published="11.3 / 631 / 0.47"),
    Row("+ bound on the Thinker's step", ASYNCHRONOUS, bounded=True, published="-"),
    Row("+ two Talkers and Code2Wavs", ASYNCHRONOUS, bounded=True, replicas=2, published="11.7 / 632 / 0.47"),
)


@dataclass(slots=True)
class Listener:
    asked_s: float
    ledger: PlayoutLedger = field(default_factory=PlayoutLedger)
    tokens: list[int] = field(default_factory=list)
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    requests_per_s: float
    ttfp_s: float
    """Mean time to the first packet of audio."""
    rtf: float
    """Mean of end-to-end time / audio."""
    underrun_p95_s: float


class Load:
    """`concurrency` users who ask once, `gap_s` apart."""

    def __init__(self, row: Row, concurrency: int, gap_s: float) -> None:
        self._row = row
        self._listeners: dict[str, Listener] = {}
        self._simulation = AnswerSimulation(
            self._model,
            partial(thinking.ToneThinker, row.costs.thinker, words=lambda *_parts: "abc" * ANSWER_TOKENS),
            thinking.ToneChat(),
            emit=self._emit,
            config=EngineConfig(max_wait_s=None, scheduler="policy_c" if row.whole else "deadline"),
            bounded=row.bounded,
        )
        for number in range(concurrency):
            self._simulation.at(number * gap_s, partial(self._ask, f"r{number}"))

    def _model(self, spend: Callable[[float], None]) -> Model:
        model = tone.build(
            costs=self._row.costs.speech,
            decode_batch=DECODE_BATCH,
            max_batch=256,
            replicas=self._row.replicas,
            frames_per_token=FRAMES_PER_TOKEN,
            answers=True,
            wait_s=spend,
        )
        return replace(model, chunk_plan=ChunkPlan((ANSWER_FRAMES,))) if self._row.whole else model

    def run(self) -> Figures:
        self._simulation.run(3600.0)
        listeners = self._listeners.values()
        reports = [listener.ledger.report(listener.asked_s) for listener in listeners]
        ended_s = [listener.ended_s for listener in listeners if listener.ended_s is not None]
        ttfp_s = [report.ttfp_s for report in reports if report.ttfp_s is not None]
        assert len(ended_s) == len(ttfp_s) == len(listeners), "every answer is spoken to its end"
        rtf = [
            (end_s - listener.asked_s) / report.audio_s
            for listener, report, end_s in zip(listeners, reports, ended_s, strict=True)
        ]
        return Figures(
            len(listeners) / max(ended_s),
            float(np.mean(ttfp_s)),
            float(np.mean(rtf)),
            float(np.percentile([report.max_underrun_s for report in reports], 95)),
        )

    def _ask(self, name: str) -> None:
        self._listeners[name] = Listener(self._simulation.clock.now_s())
        turn = Turn(Role.USER, (TextPart("x" * thinking.TOKEN_BYTES * (PROMPT_TOKENS - 3)),))
        voice = None if self._row.whole else "tone_low"
        self._simulation.send(SubmitAnswer(AnswerRequest(name, name, (turn,), voice)))

    def _emit(self, event: EngineEvent) -> None:
        now_s, listener = self._simulation.clock.now_s(), self._listeners[event.request_id]
        if isinstance(event, AudioReady):
            listener.ledger.record(arrived_at_s=now_s, duration_s=len(event.samples) / tone.SAMPLE_RATE_HZ)
            self._simulation.send(AudioSent(event.request_id, len(event.samples), listener.ledger.lead_s(now_s)))
        elif isinstance(event, TextReady):
            listener.tokens += thinking.to_ids(event.text)
        elif isinstance(event, RequestFinished):
            if self._row.whole and not listener.ledger.report().packets:
                self._speak_whole(event.request_id, listener)
            else:
                listener.ended_s = now_s

    def _speak_whole(self, name: str, listener: Listener) -> None:
        """All of the text at once, and all of the audio as one chunk."""
        request = SynthesisRequest(
            name,
            name,
            "",
            "tone_low",
            ids=tuple(listener.tokens),
            initial_codec_chunk_frames=ANSWER_FRAMES,
            streamed=False,
        )
        self._simulation.send(Submit(request))


def table(concurrencies: Sequence[int], gap_s: float) -> Result:
    lines = []
    for row in ROWS:
        for concurrency in concurrencies:
            figures = Load(row, concurrency, gap_s).run()
            lines.append(
                (
                    row.name,
                    concurrency,
                    round(figures.requests_per_s, 2),
                    round(1000 * figures.ttfp_s),
                    round(figures.rtf, 2),
                    round(1000 * figures.underrun_p95_s),
                    row.published if concurrency == 64 else "",
                )
            )
    columns = ("mechanisms", "c", "requests/s", "TTFP mean ms", "RTF", "underrun p95 ms", "published at c = 64")
    conditions = results.conditions("bench.omni_table") | {"gap": f"{gap_s:g} s"}
    notes = (
        f"{PROMPT_TOKENS} tokens of prompt, {ANSWER_TOKENS} of answer, {ANSWER_FRAMES * 0.08:.1f} s of audio; all users"
        f" ask once, {1000 * gap_s:g} ms apart; nobody is refused",
        f"eager steps: {EAGER}",
        f"CUDA graphs: {GRAPHS}",
        f"asynchronous output: {ASYNCHRONOUS}",
        "the costs are assumptions for three H200 and are not measured; published: requests/s, mean TTFP in ms, RTF",
        "underrun: of chunked rows only, since a whole answer has no gaps",
    )
    return Result(
        bench="bench.omni_table",
        title="Answers in virtual time",
        tables=(Table("All mechanisms, one after the other", columns, tuple(lines)),),
        notes=notes,
        conditions=conditions,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.omni_table", __doc__)
    parser.add_argument(
        "-c", "--concurrency", type=options.positive_int, nargs="+", default=[1, 16, 32, 64], help="users"
    )
    parser.add_argument("--gap", type=options.positive, default=0.02, help="seconds between their questions")
    outputs.add_outputs(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    result = table(args.concurrency, args.gap)
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 0


if __name__ == "__main__":
    sys.exit(main())
