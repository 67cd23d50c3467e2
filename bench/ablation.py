"""Ablation: the effect of each optimisation on top of the previous ones, on the same prompts, in one run.

    python -m bench.ablation --report ablation.html
    python -m bench.ablation --size 0.6B --device cuda --concurrency 1 4 10 16 32 64 --report ablation.html
    python -m bench.ablation --model tone --concurrency 1 10 64

The layers: baseline (one request at a time, whole sentences), + batching, + graphs (compiled or captured steps, if the
model offers them), + streaming (chunks of 25 frames with left context), + first chunk (2 to 16 frames by load),
+ stateful (a Code2Wav that keeps its state), + deadline (ours: deadlines and admission).  The engine runs in this
process, without a server; the model is a Qwen3-TTS with random weights, or `tone`, whose steps wait as long as those of
an H200 take.

Every round measures all layers, in alternating order, so that other activity on this machine affects all of them alike.
No layer starts after --max-total-s, and one that takes longer than --max-run-s is stopped, so by default it is done
within 8 minutes; then, or at Ctrl-C, it prints the results.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import options, outputs, results
from bench.ablation_driver import drive
from bench.ablation_figures import METRICS, Findings, result_of, value_of
from bench.ablation_layers import LAYERS, Layer, Prompt, Qwen3TTS, Subject, Tone, prompts
from bench.listeners import Stopwatch
from bench.options import positive, positive_int
from bench.tables import as_text
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

FRAME_S = 0.08
SIZES = ("tiny", "quarter", "half", "0.6B", "1.7B")
WARM_UP_USERS = 4
MIN_PROMPTS = 3
"""Per layer and round, with any number of users."""


@dataclass(frozen=True, slots=True)
class AblationPlan:
    users: tuple[int, ...]
    rounds: int
    prompts_per_user: int
    words: tuple[int, int]
    max_total_s: float
    max_run_s: float

    def prompts(self, users: int) -> list[Prompt]:
        return prompts(max(MIN_PROMPTS, self.prompts_per_user * users), *self.words)

    def measurements(self, layers: Sequence[Layer]) -> Iterator[tuple[int, int, Layer]]:
        """(round, users, layer), in the order of measurement."""
        for number in range(self.rounds):
            for users in self.users:
                for layer in layers if number % 2 == 0 else reversed(layers):
                    yield number, users, layer


class Ablation:
    """Measures a plan; `findings` are the results so far."""

    def __init__(self, subject: Subject, plan: AblationPlan) -> None:
        self.findings = Findings(
            {layer.name: why for layer in LAYERS if (why := subject.why_not_applicable(layer)) is not None}
        )
        self.stop = asyncio.Event()
        self._subject = subject
        self._plan = plan
        self._clock = MonotonicClock()
        self._watch = Stopwatch(self._clock)
        self._costs: dict[Model, PipelineCosts] = {}
        """The costs of each model's steps, as learnt so far."""

    async def run(self) -> None:
        self._watch = Stopwatch(self._clock)
        layers = self.findings.layers
        for layer in layers:
            await self._warm_up(layer)
        for number, users, layer in self._plan.measurements(layers):
            if self._watch.now_s() >= self._plan.max_total_s or self.stop.is_set():
                self._progress("ended early")
                return
            await self._measure(number, users, layer)

    async def _warm_up(self, layer: Layer) -> None:
        """The first layer with a model loads it and measures the costs of its steps."""
        model = await asyncio.to_thread(self._subject.model, layer)
        if model not in self._costs and not self.stop.is_set():
            self._progress(f"warming up {layer.name}")
            warm_up_prompts = prompts(WARM_UP_USERS, *self._plan.words)
            _run, self._costs[model] = await drive(
                model,
                layer,
                self._clock,
                warm_up_prompts,
                users=WARM_UP_USERS,
                limit_s=self._plan.max_run_s,
                stop=self.stop,
            )

    async def _measure(self, number: int, users: int, layer: Layer) -> None:
        model = self._subject.model(layer)
        run, self._costs[model] = await drive(
            model,
            layer,
            self._clock,
            self._plan.prompts(users),
            users=users,
            limit_s=self._plan.max_run_s,
            stop=self.stop,
            costs=self._costs[model],
        )
        if self.stop.is_set():
            return  # interrupted: its figures are incomplete
        self.findings.add(layer, users, number, run)
        compared = [metric for metric in METRICS if metric.compared]
        values = ", ".join(f"{metric.name} {metric.text(value_of(metric, run))}" for metric in compared)
        self._progress(f"round {number + 1} of {self._plan.rounds}, c={users:<3} {layer.name:14} {values}")

    def _progress(self, line: str) -> None:
        print(f"{self._watch.now_s():4.0f} s  {line}", file=sys.stderr, flush=True)


# -- Command line ------------------------------------------------------------------------------------------------------


@contextmanager
def subject_of(args: argparse.Namespace) -> Iterator[Subject]:
    slots = max(args.concurrency)
    if args.model == "tone":
        yield Tone(slots, args.profile)
        return
    import torch

    from bench.qwen3_tts_weights import SIZES as SHAPES
    from bench.qwen3_tts_weights import write_model

    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    on_gpu = args.device.startswith("cuda")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        print(f"writing a model of size {args.size}", file=sys.stderr)
        write_model(directory, SHAPES[args.size])
        conditions = {
            "model": f"Qwen3-TTS of size {args.size}, random weights",
            "torch": str(torch.__version__),
            "device": torch.cuda.get_device_name(args.device) if on_gpu else f"cpu, {args.threads} threads of torch",
        }
        yield Qwen3TTS(directory, slots, args.device, args.threads, conditions)


def conditions_of(args: argparse.Namespace, subject: Subject) -> dict[str, str]:
    shortest, longest = (Prompt(" ".join(["hello"] * words), 0).frames for words in args.words)
    return (
        results.conditions("bench.ablation", args.given)
        | dict(subject.conditions)
        | {
            "prompts": f"{args.prompts} per user, the same for every layer and round, of about"
            f" {shortest * FRAME_S:.1f} to {longest * FRAME_S:.1f} s of speech",
            "slots": f"{max(args.concurrency)}; the baseline has 1",
            "rounds": str(args.rounds),
        }
    )


async def measure(ablation: Ablation) -> None:
    """Until it is done, or until Ctrl-C."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ablation.stop.set)
    await ablation.run()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser("bench.ablation", __doc__)
    parser.add_argument("--model", choices=("qwen3_tts", "tone"), default="qwen3_tts", help="see above")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="of qwen3_tts")
    parser.add_argument("--device", default="auto", help="of qwen3_tts: auto, cpu, cuda, cuda:N")
    parser.add_argument("--threads", type=positive_int, help="of torch on a CPU  [default: all cores but one]")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h200", help="of tone")
    parser.add_argument("-c", "--concurrency", type=positive_int, nargs="+", default=[1, 4, 10], help="users")
    parser.add_argument("--rounds", type=positive_int, default=3, help="each with every layer")
    parser.add_argument("--prompts", type=positive_int, default=1, help="per user and round, at least 3 in total")
    limits = ("MIN", "MAX")
    parser.add_argument("--words", type=positive_int, nargs=2, metavar=limits, default=(6, 14), help="per prompt")
    parser.add_argument("--max-total-s", type=positive, default=420.0, help="start no layer after this time")
    parser.add_argument("--max-run-s", type=positive, default=30.0, help="stop a layer that takes longer")
    parser.add_argument("--smoke", action="store_true", help="a few seconds: tone without costs, 1 and 2 users")
    outputs.add_outputs(parser)
    parsed = parser.parse_args(arguments)
    parsed.given = arguments
    if parsed.words[0] > parsed.words[1]:
        parser.error("--words: the minimum comes first")
    if parsed.smoke:
        parsed.model, parsed.profile, parsed.concurrency, parsed.rounds = "tone", "free", [1, 2], 1
    if parsed.threads is None:
        parsed.threads = max(1, (os.cpu_count() or 1) - 1)  # one core is for the event loop and the engine thread
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    users = tuple(sorted(set(args.concurrency)))
    plan = AblationPlan(users, args.rounds, args.prompts, tuple(args.words), args.max_total_s, args.max_run_s)
    try:
        with subject_of(args) as subject:
            ablation = Ablation(subject, plan)
            asyncio.run(measure(ablation))
            conditions = conditions_of(args, subject)
    except ModelNotUsable as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    result = result_of(ablation.findings, conditions)
    # The last table, with every round, is for the file only.
    shown = replace(result, tables=result.tables[:-1])
    print(as_text(shown))
    outputs.write_outputs(args, [result], reported=[shown])
    return 0 if ablation.findings.users else 1


if __name__ == "__main__":
    sys.exit(main())
