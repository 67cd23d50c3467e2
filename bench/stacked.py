"""What does each layer bring?  The field's steps stacked one on another, on the same prompts, in one run.

    python -m bench.stacked --report stacked.html
    python -m bench.stacked --size 0.6B --device cuda --concurrency 1 4 10 16 32 64 --report stacked.html
    python -m bench.stacked --model tone --concurrency 1 10 64

The layers: baseline (one request at a time, whole sentences), + batching, + graphs (compiled or captured steps, where
the model offers them), + streaming (chunks of 25 frames with left context), + first chunk (2 to 16 frames by load),
+ stateful (a Code2Wav that keeps its state), + deadline (ours: deadlines and admission).  The engine runs in this
process, without a server; the model is a Qwen3-TTS of random weights, or `tone`, whose steps wait for as long as those
of an H200 take.

Every round takes all layers in turn, forwards and backwards alternately, so that what else this machine does hits all
of them alike.  It begins no layer's turn after --budget-s, and cuts one that takes longer than --cell-s, so by default
it is done within 8 minutes; then, or at Ctrl-C, it prints what there is.
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

from bench import report, results
from bench.listeners import Stopwatch
from bench.result_page import as_text
from bench.stacked_drive import drive
from bench.stacked_figures import METRICS, Found, measured, result
from bench.stacked_layers import LAYERS, Layer, Prompt, Qwen3TTS, Subject, Tone, prompts
from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.cost_model import PipelineCosts
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable

FRAME_S = 0.08
SIZES = ("tiny", "quarter", "half", "0.6B", "1.7B")
WARM_UP_USERS = 4
LEAST_PROMPTS = 3
"""Of a layer's turn, with however few users."""


@dataclass(frozen=True, slots=True)
class Plan:
    users: tuple[int, ...]
    rounds: int
    prompts_each: int
    words: tuple[int, int]
    budget_s: float
    cell_s: float

    def prompts(self, users: int) -> list[Prompt]:
        return prompts(max(LEAST_PROMPTS, self.prompts_each * users), *self.words)

    def cells(self, layers: Sequence[Layer]) -> Iterator[tuple[int, int, Layer]]:
        """(round, users, layer), in the order in which they are measured."""
        for number in range(self.rounds):
            for users in self.users:
                for layer in layers if number % 2 == 0 else reversed(layers):
                    yield number, users, layer


class Bench:
    """Measures a plan; `found` is what there is so far."""

    def __init__(self, subject: Subject, plan: Plan) -> None:
        self.found = Found({layer.name: why for layer in LAYERS if (why := subject.lacks(layer)) is not None})
        self.stop = asyncio.Event()
        self._subject = subject
        self._plan = plan
        self._clock = MonotonicClock()
        self._watch = Stopwatch(self._clock)
        self._costs: dict[Model, PipelineCosts] = {}
        """What a model's steps cost, as learnt so far."""

    async def run(self) -> None:
        self._watch = Stopwatch(self._clock)
        layers = self.found.layers
        for layer in layers:
            await self._warm_up(layer)
        for number, users, layer in self._plan.cells(layers):
            left_s = self._plan.budget_s - self._watch.now_s()
            if left_s <= 0 or self.stop.is_set():
                self._tell("ended early")
                return
            await self._measure(number, users, layer)

    async def _warm_up(self, layer: Layer) -> None:
        """The first layer that uses a model loads it, and teaches it what its steps cost."""
        model = await asyncio.to_thread(self._subject.model, layer)
        if model not in self._costs and not self.stop.is_set():
            self._tell(f"warming up {layer.name}")
            some = prompts(WARM_UP_USERS, *self._plan.words)
            _cell, self._costs[model] = await drive(
                model, layer, self._clock, some, users=WARM_UP_USERS, limit_s=self._plan.cell_s, stop=self.stop
            )

    async def _measure(self, number: int, users: int, layer: Layer) -> None:
        model = self._subject.model(layer)
        cell, self._costs[model] = await drive(
            model,
            layer,
            self._clock,
            self._plan.prompts(users),
            users=users,
            limit_s=self._plan.cell_s,
            stop=self.stop,
            costs=self._costs[model],
        )
        if self.stop.is_set():
            return  # broken off: its figures are no layer's
        self.found.add(layer, users, number, cell)
        told = ", ".join(
            f"{metric.name} {metric.text(measured(metric, cell))}" for metric in METRICS if metric.compared
        )
        self._tell(f"round {number + 1} of {self._plan.rounds}, c={users:<3} {layer.name:14} {told}")

    def _tell(self, line: str) -> None:
        print(f"{self._watch.now_s():4.0f} s  {line}", file=sys.stderr, flush=True)


# -- The command line --------------------------------------------------------------------------------------------------


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


def described(args: argparse.Namespace, subject: Subject) -> dict[str, str]:
    shortest, longest = (Prompt(" ".join(["hello"] * words), 0).frames for words in args.words)
    return (
        results.conditions("bench.stacked", args.given)
        | dict(subject.conditions)
        | {
            "prompts": f"{args.prompts} a user, the same for every layer and round, of about"
            f" {shortest * FRAME_S:.1f} to {longest * FRAME_S:.1f} s of speech",
            "slots": f"{max(args.concurrency)}, but for the baseline's one",
            "rounds": str(args.rounds),
        }
    )


async def measure(bench: Bench) -> None:
    """Until it is done, or the first Ctrl-C."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, bench.stop.set)
    await bench.run()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.stacked", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=("qwen3_tts", "tone"), default="qwen3_tts", help="default: %(default)s")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="of qwen3_tts (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="of qwen3_tts: auto, cpu, cuda, cuda:N")
    parser.add_argument("--threads", type=positive, help="of torch on a CPU (default: 1 for each core but one)")
    parser.add_argument("--profile", choices=sorted(tone.PROFILES), default="h200", help="of tone (%(default)s)")
    parser.add_argument("-c", "--concurrency", type=positive, nargs="+", default=[1, 4, 10], help="users (1 4 10)")
    parser.add_argument("--rounds", type=positive, default=3, help="default: %(default)s")
    parser.add_argument(
        "--prompts", type=positive, default=1, help="of each user in a round, 3 in all at least (%(default)s)"
    )
    parser.add_argument(
        "--words", type=positive, nargs=2, default=(6, 14), metavar=("LEAST", "MOST"), help="in a prompt (6 14)"
    )
    parser.add_argument(
        "--budget-s", type=seconds, default=420.0, help="begin no layer's turn after so long (%(default)g)"
    )
    parser.add_argument(
        "--cell-s", type=seconds, default=30.0, help="cut a layer's turn that takes longer (%(default)g)"
    )
    parser.add_argument("--smoke", action="store_true", help="seconds: the free tone, 1 and 2 users, one round")
    parser.add_argument("--json", type=Path, help="write the figures")
    parser.add_argument("--report", type=Path, help="write a page with plots: one HTML file that needs nothing else")
    parsed = parser.parse_args(arguments)
    parsed.given = sys.argv[1:] if arguments is None else list(arguments)
    if parsed.words[0] > parsed.words[1]:
        parser.error("--words: the least comes first")
    if parsed.smoke:
        parsed.model, parsed.profile, parsed.concurrency, parsed.rounds = "tone", "free", [1, 2], 1
    if parsed.threads is None:
        parsed.threads = max(1, (os.cpu_count() or 1) - 1)  # the other is the loop's, and the engine's own
    return parsed


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return number


def seconds(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    users = tuple(sorted(set(args.concurrency)))
    plan = Plan(users, args.rounds, args.prompts, tuple(args.words), args.budget_s, args.cell_s)
    try:
        with subject_of(args) as subject:
            bench = Bench(subject, plan)
            asyncio.run(measure(bench))
            conditions = described(args, subject)
    except ModelNotUsable as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    told = result(bench.found, conditions)
    shown = replace(told, tables=told.tables[:-1])  # the last is every round's, for the file
    print(as_text(shown))
    if args.json:
        args.json.write_bytes(results.dumps(told))
    if args.report:
        args.report.write_text(report.page([shown]), "utf-8")
    return 0 if bench.found.users else 1


if __name__ == "__main__":
    sys.exit(main())
