"""Our server beside others on this machine: what do their listeners hear of the same texts?

Every server is started once and stays loaded; one at a time is driven, in turns, and who goes first changes.  Each
round plays every scenario to every server: so many listeners at once (--listeners), with a text that is there at once
or written token by token (--tokens-per-s), the way its programming interface takes it.  All figures are the listeners'
own, by the one definition of underrun in realtime_tts/audio/playout.py.

  TTFP, TTFA     to the first packet, and the first audible sound: from when the text, or its first token, was there
  underrun       the longest wait in mid-speech; "-" where every stream was a single packet: not applicable
  ok             share of streams without a wait of more than 100 ms, of those that can be judged; failures count as not
  E2E, RTF       to the last packet; the same by the seconds of speech: the share of the realtime budget that is used
  CPU s/s        processor seconds of the server's processes for a second of speech
  first work     seconds of speech that the server could have made by its first packet: what it keeps a listener waiting
                 for, apart from how heavy its model is

Servers of our model are compared in seconds.  Those of another are not: a lighter model is faster whoever serves it.
With them, look at underruns, and at the first work.  Ours against theirs is by pairs of listeners of the same text:
whoever was refused or failed at either is left out at both, and is counted in the table.
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

from bench import report, results
from bench.load import positive
from bench.peers import qwen3_tts
from bench.peers.catalogue import DEFAULT, OURS, PEERS, SMOKE, Peer
from bench.peers.cells import Kept, after, dumps, load
from bench.peers.contest import Contest, Plan, Scenario
from bench.peers.figures import aligned
from bench.peers.result import result
from bench.peers.setup import peers_dir
from realtime_tts.errors import RealtimeTTSError


def planned(args: argparse.Namespace) -> Plan:
    speeds = [speed or None for speed in args.tokens_per_s]
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else range(os.cpu_count() or 1)
    cores = cores[: args.cores]
    return Plan(
        scenarios=tuple(Scenario(count, speed) for speed in speeds for count in args.listeners),
        rounds=args.rounds,
        sentences=args.sentences,
        limit_s=args.limit,
        threads=len(cores),
        cores=tuple(cores),
        seed=args.seed,
    )


def set_up(names: Sequence[str], home: Path) -> int:
    """Installs what the named servers need; one that fails does not stop the others."""
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


def present(names: Sequence[str], home: Path) -> tuple[list[Peer], dict[str, str]]:
    """Who can be started; and how to install each of the others."""
    peers = [PEERS[name] for name in names]
    absent = {
        peer.name: f"not installed; python -m bench.peers --setup {peer.name}"
        for peer in peers
        if peer.recipe is not None and not peer.recipe.is_installed(home)
    }
    return [peer for peer in peers if peer.name not in absent], absent


def measure(args: argparse.Namespace, kept: Kept, peers: Sequence[Peer], absent: dict[str, str]) -> Kept:
    """Plays the rounds, and adds them to those that are kept."""
    plan = after(planned(args), kept)
    cells = plan.rounds * len(plan.scenarios) * len(peers)
    print(f"{cells} turns, none longer than {plan.limit_s:g} s", file=sys.stderr)
    contest = Contest(plan, peers, args.cache, tell)
    with tempfile.TemporaryDirectory() as logs:
        asyncio.run(played(contest, Path(logs)))
    command = results.conditions("bench.peers", args.given)["command"]
    return Kept(plan, (*kept.cells, *contest.cells), (*kept.commands, command), absent | contest.failures)


async def played(contest: Contest, logs: Path) -> None:
    """Until its end, or until Ctrl-C or SIGTERM: then the servers are stopped, and what there is counts."""
    loop, playing = asyncio.get_running_loop(), asyncio.create_task(contest.run(logs))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, playing.cancel)
    try:
        await playing
    except asyncio.CancelledError:
        tell("broken off: what follows is what there is")


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def reference(args: argparse.Namespace) -> results.Result | None:
    """Our Qwen3-TTS against its reference, where that is asked for."""
    if args.qwen_result:
        return qwen3_tts.load(args.qwen_result)
    if args.reference_python is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "found.json"
        return qwen3_tts.measure(args.reference_python, max(1, args.rounds), len(planned(args).cores), output)


def conditions(kept: Kept, given: Sequence[str]) -> dict[str, str]:
    plan = kept.plan
    rounds = max((cell.round + 1 for cell in kept.cells), default=0)
    told = results.conditions("bench.peers", given)
    if len(kept.commands) > 1:
        told["rounds came from"] = "; ".join(kept.commands)
    return told | {
        "cores": f"{len(plan.cores)} for each server (taskset {','.join(map(str, plan.cores))}), shared with the"
        f" listeners; {plan.threads} threads where a server has an option for it",
        "texts": f"{plan.sentences} sentences each, drawn with seed {plan.seed}; others in each of {rounds} rounds",
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"""\
servers:
{_listed()}
examples:
  python -m bench.peers --setup                        install the others, once
  python -m bench.peers --rounds 3 --report peers.html
  python -m bench.peers --cells peers.json --rounds 1  one round more at each call: for a machine that others use too
  python -m bench.peers --cells peers.json --rounds 0 --report peers.html --reference-python VENV/bin/python

exit status: 0; 1 where --setup failed; 2 where our server, or all others, could not be measured.
""",
    )
    kind = parser.add_argument_group("what is compared")
    kind.add_argument("--peers", nargs="+", choices=sorted(PEERS), metavar="NAME", help=f"default: {' '.join(DEFAULT)}")
    kind.add_argument("--setup", nargs="*", choices=sorted(PEERS), metavar="NAME", help="install, and leave")
    kind.add_argument("--cache", type=Path, default=peers_dir(), help="where they are installed (%(default)s)")
    kind.add_argument("--reference-python", type=Path, help="run bench.qwen3_tts_vs_reference with it, too")
    kind.add_argument("--qwen-result", type=Path, help="or take what that has written with --result")
    load_ = parser.add_argument_group("the load")
    load_.add_argument("--listeners", type=_count, nargs="+", default=[1, 2, 4], help="at once (1 2 4)")
    load_.add_argument("--tokens-per-s", type=float, nargs="+", default=[0, 20], help="0: whole texts (0 20)")
    load_.add_argument("--sentences", type=_count, default=2, help="of each utterance (%(default)s)")
    load_.add_argument("--rounds", type=int, default=3, help="0 only reports on --cells (%(default)s)")
    load_.add_argument("--limit", type=positive, default=60.0, help="seconds for one turn (%(default)g)")
    load_.add_argument("--cores", type=_count, help="for each server (default: all)")
    load_.add_argument("--seed", type=int, default=0, help="which texts (%(default)s)")
    load_.add_argument("--smoke", action="store_true", help="seconds, with the test model: does this bench work?")
    outputs = parser.add_argument_group("what comes out")
    outputs.add_argument("--cells", type=Path, help="keep every listener's figures; rounds kept earlier count, too")
    outputs.add_argument("--json", type=Path, help="write tables and plots, with the conditions")
    outputs.add_argument("--report", type=Path, help="write a page: one HTML file that needs nothing else")
    args = parser.parse_args(arguments)
    args.given = sys.argv[1:] if arguments is None else list(arguments)
    if args.smoke:
        args.peers, args.listeners, args.tokens_per_s, args.limit = SMOKE, [1, 2], [0, 200], 20.0
        args.rounds = min(args.rounds, 1)
    args.peers = args.peers or DEFAULT
    return args


def _listed() -> str:
    return "\n".join(f"  {peer.name}: {peer.about}" for peer in PEERS.values())


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {number}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    if args.setup is not None:
        return set_up(args.setup or DEFAULT, args.cache)
    peers, absent = present(args.peers, args.cache)
    try:
        kept = load(args.cells) if args.cells and args.cells.exists() else Kept(planned(args))
        if args.rounds:
            kept = measure(args, kept, peers, absent)
        if args.cells:
            args.cells.write_bytes(dumps(kept))
        found = reference(args)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    measured = {cell.peer for cell in kept.cells}
    shown = [peer for peer in PEERS.values() if peer.name in measured]
    for name, reason in kept.absent.items():
        print(f"{name}: {reason}", file=sys.stderr)
    ours = next((peer for peer in shown if peer.name in (OURS, SMOKE[0])), None)
    if ours is None or len(shown) < 2:
        print("Error: there is nothing to compare", file=sys.stderr)
        return 2
    outcome = result(kept, shown, ours, conditions(kept, args.given), found)
    for table in outcome.tables:
        print(f"{table.title}\n{aligned(table)}\n")
    print(outcome.headline)
    if args.json:
        args.json.write_bytes(results.dumps(outcome))
    if args.report:
        args.report.write_text(report.page([outcome]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
