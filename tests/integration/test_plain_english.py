"""Plain engineering English: words that style rules exclude are not in names, prose, help or errors."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".js", ".mjs", ".html", ".css", ".toml", ".yaml", ".yml", ".sh"}
EXCLUDED = re.compile(
    r"\b(whoever|anew|lest|nought|reckon\w*|by[ _]and[ _]by|in[ _]earnest|lets?[ _]go"
    r"|com(?:es?|ing)[ _]to[ _](?:its|their|an)[ _]end"
    r"|told|roster|unrouted|routed|dialogue)\b|told_|_told|_heard_of|heard_of_|_goes_on|who may come in",
    re.IGNORECASE,
)
ALLOWED = {"tests/integration/test_plain_english.py"}


def files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    paths = [ROOT / name for name in listed.splitlines() if name not in ALLOWED]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file()]


def test_excluded_words_are_gone() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in EXCLUDED.finditer(line)
    ]
    assert not found, "\n".join(found[:100]) + f"\n{len(found)} in all"
