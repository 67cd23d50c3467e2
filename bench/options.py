"""Command-line options that the benchmarks share."""

import argparse
import importlib.util

REPORT_PACKAGES = ("matplotlib", "jinja2")
INSTALL_REPORT = "needs matplotlib and jinja2: pip install 'realtime-tts[bench]'"


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the description, and adds the default of an option to its help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def make_parser(module: str, description: str | None, *, epilog: str | None = None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=epilog,
        formatter_class=HelpFormatter,
    )


def report_is_possible() -> bool:
    return all(importlib.util.find_spec(name) for name in REPORT_PACKAGES)


def positive(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def positive_int(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return number


STAGE_COUNTS_HELP = "lanes of the stages, such as talker=2,code2wav=2"


def stage_counts(text: str) -> dict[str, int]:
    """Lanes by stage."""
    counts = {stage: count for stage, _, count in (part.partition("=") for part in text.split(","))}
    if unknown := counts.keys() - {"talker", "code2wav"}:
        raise argparse.ArgumentTypeError(f"has talker and code2wav, not {', '.join(sorted(unknown))}")
    return {stage: positive_int(count) for stage, count in counts.items()}
