"""Comparison of our server with others on this machine: the playback of their listeners with the same texts.

Every server is started once and stays loaded; they are measured one at a time, in changing order.  Each round runs
every scenario on every server: a number of concurrent listeners (--listeners), with a text that is complete at once or
written token by token (--tokens-per-s), sent the way the server's programming interface requires.  All figures are
those of the listeners, with the one definition of underrun in realtime_tts/audio/playout.py.

  TTFP, TTFA     to the first packet and to the first audible sample, from when the text or its first token was there
  underrun       the longest interruption in mid-speech; "-" if every stream was a single packet: not applicable
  ok             share of streams without an interruption above 100 ms, of those with a verdict; failures are not ok
  E2E, RTF       to the last packet; the same divided by the seconds of audio: the used share of real time
  CPU s/s        CPU seconds of the server's processes per second of audio
  work before first audio
                 seconds of audio that the server could have made by its first packet: the delay that it adds,
                 independent of the cost of its model

Servers of our model are compared in seconds.  Those of another model are not, because a lighter model is faster with
any server: compare their underruns and their work before the first audio.  Ratios use pairs of listeners with the same
text: a request that was refused or failed at one server is excluded for both, and counted in the table.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import options, outputs, results
from bench.options import positive, positive_int
from bench.peers.catalogue import DEFAULT, OURS, PEERS, SMOKE, Peer
from bench.peers.comparison import Comparison, ComparisonPlan, Scenario
from bench.peers.result import result_of
from bench.peers.saved_rounds import SavedRounds, continued, dumps, load
from bench.peers.setup import peers_dir
from bench.tables import as_text
from realtime_tts.errors import RealtimeTTSError


def plan_of(args: argparse.Namespace) -> ComparisonPlan:
    speeds = [speed or None for speed in args.tokens_per_s]
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else range(os.cpu_count() or 1)
    cores = cores[: args.cores]
    return ComparisonPlan(
        scenarios=tuple(Scenario(count, speed) for speed in speeds for count in args.listeners),
        rounds=args.rounds,
        sentences=args.sentences,
        limit_s=args.limit,
        threads=len(cores),
        cores=tuple(cores),
        seed=args.seed,
    )


def set_up(names: Sequence[str], home: Path) -> int:
    """Installs the named servers; one failure does not stop the others."""
    recipes = {recipe.name: recipe for name in names if (recipe := PEERS[name].recipe)}
    failed = 0
    for recipe in recipes.values():
        print(f"installing {recipe.name} into {home / recipe.name}", file=sys.stderr)
        try:
            recipe.install(home)
        except (subprocess.CalledProcessError, OSError, RealtimeTTSError) as error:
            print(f"Error: {recipe.name}: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def installed(names: Sequence[str], home: Path) -> tuple[list[Peer], dict[str, str]]:
    """The servers that can be started, and how to install each of the others."""
    peers = [PEERS[name] for name in names]
    absent = {
        peer.name: f"not installed; python -m bench.peers --setup {peer.name}"
        for peer in peers
        if peer.recipe is not None and not peer.recipe.is_installed(home)
    }
    return [peer for peer in peers if peer.name not in absent], absent


def measure(args: argparse.Namespace, saved: SavedRounds, peers: Sequence[Peer], absent: dict[str, str]) -> SavedRounds:
    """Runs the rounds, and adds them to the saved ones."""
    plan = continued(plan_of(args), saved)
    count = plan.rounds * len(plan.scenarios) * len(peers)
    print(f"{count} measurements of at most {plan.limit_s:g} s", file=sys.stderr)
    comparison = Comparison(plan, peers, args.cache, progress_line)
    with tempfile.TemporaryDirectory() as logs:
        asyncio.run(run_until_signal(comparison, Path(logs)))
    command = results.conditions("bench.peers", args.given)["command"]
    measurements = (*saved.measurements, *comparison.measurements)
    return SavedRounds(plan, measurements, (*saved.commands, command), absent | comparison.failures)


async def run_until_signal(comparison: Comparison, logs: Path) -> None:
    """Ctrl-C or SIGTERM stops the servers; the results so far remain."""
    loop, running = asyncio.get_running_loop(), asyncio.create_task(comparison.run(logs))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        progress_line("interrupted: the results are incomplete")


def progress_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def conditions(saved: SavedRounds, given: Sequence[str] | None) -> dict[str, str]:
    plan = saved.plan
    rounds = max((one.round + 1 for one in saved.measurements), default=0)
    common = results.conditions("bench.peers", given)
    if len(saved.commands) > 1:
        common["commands of the rounds"] = "; ".join(saved.commands)
    return common | {
        "cores": f"{len(plan.cores)} for each server (taskset {','.join(map(str, plan.cores))}), shared with the"
        f" listeners; {plan.threads} threads for servers with such an option",
        "texts": f"{plan.sentences} sentences each, drawn with seed {plan.seed}; different in each of {rounds} rounds",
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.make_parser(
        "bench.peers",
        __doc__,
        epilog=f"""\
servers:
{_listed()}
examples:
  python -m bench.peers --setup                             install the other servers, once
  python -m bench.peers --rounds 3 --report peers.html
  python -m bench.peers --rounds-file rounds.json --rounds 1  one more round at each call
  python -m bench.peers --rounds-file rounds.json --rounds 0 --report peers.html

exit status: 0; 1 if --setup failed; 2 if our server, or all others, could not be measured.
""",
    )
    kind = parser.add_argument_group("servers")
    names = sorted(PEERS)
    kind.add_argument("--peers", nargs="+", choices=names, metavar="NAME", default=DEFAULT, help="measured servers")
    kind.add_argument(
        "--setup", nargs="*", choices=names, metavar="NAME", help="only install these, or the default ones"
    )
    kind.add_argument("--cache", type=Path, default=peers_dir(), help="where they are installed")
    load_options = parser.add_argument_group("load")
    load_options.add_argument("--listeners", type=positive_int, nargs="+", default=[1, 2, 4], help="concurrent")
    load_options.add_argument("--tokens-per-s", type=float, nargs="+", default=[0, 20], help="0: whole texts")
    load_options.add_argument("--sentences", type=positive_int, default=2, help="per utterance")
    load_options.add_argument("--rounds", type=int, default=3, help="0 only reports the rounds file")
    load_options.add_argument("--limit", type=positive, default=60.0, help="seconds of one measurement")
    load_options.add_argument("--cores", type=positive_int, help="for each server  [default: all]")
    load_options.add_argument("--seed", type=int, default=0, help="of the texts")
    load_options.add_argument("--smoke", action="store_true", help="a few seconds with the test model")
    group = parser.add_argument_group("output")
    group.add_argument("--rounds-file", type=Path, help="add these rounds to those of earlier runs in this file")
    outputs.add_outputs(group)
    args = parser.parse_args(arguments)
    args.given = arguments
    if args.smoke:
        args.peers, args.listeners, args.tokens_per_s, args.limit = SMOKE, [1, 2], [0, 200], 20.0
        args.rounds = min(args.rounds, 1)
    return args


def _listed() -> str:
    return "\n".join(f"  {peer.name}: {peer.description}" for peer in PEERS.values())


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    if args.setup is not None:
        return set_up(args.setup or DEFAULT, args.cache)
    peers, absent = installed(args.peers, args.cache)
    file = args.rounds_file
    try:
        saved = load(file) if file and file.exists() else SavedRounds(plan_of(args))
        if args.rounds:
            saved = measure(args, saved, peers, absent)
        if file:
            file.write_bytes(dumps(saved))
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    measured = {measurement.peer for measurement in saved.measurements}
    shown = [peer for peer in PEERS.values() if peer.name in measured]
    for name, reason in saved.absent.items():
        print(f"{name}: {reason}", file=sys.stderr)
    ours = next((peer for peer in shown if peer.name in (OURS, SMOKE[0])), None)
    if ours is None or len(shown) < 2:
        print("Error: there is nothing to compare", file=sys.stderr)
        return 2
    result = result_of(saved, shown, ours, conditions(saved, args.given))
    print(as_text(result))
    outputs.write_outputs(args, [result])
    return 0


if __name__ == "__main__":
    sys.exit(main())
