"""Generator of the British dictionaries: `python -m realtime_tts.engine.models.kokoro.make_british DIR`.

Run by a maintainer when misaki changes, never by the server.  DIR is `misaki/data/` of the unpacked wheel of misaki
0.9.4 (PyPI).  The package itself is no dependency: it is for Python before 3.13 only.
"""

import lzma
import sys
from pathlib import Path

import msgspec

from realtime_tts.engine.models.kokoro.british import DICTIONARIES_PATH, Dictionaries


def make_dictionaries(source: Path, target: Path) -> Dictionaries:
    """Packs both dictionaries of `source` into `target`.  Words that both have are left out of the second."""
    gold, silver = (
        msgspec.json.decode(
            (source / f"gb_{kind}.json").read_bytes(), type=dict[str, str | dict[str, str | None] | None]
        )
        for kind in ("gold", "silver")
    )
    packed = Dictionaries(gold, {word: sound for word, sound in silver.items() if word not in gold})
    target.write_bytes(lzma.compress(msgspec.json.encode(packed), preset=9 | lzma.PRESET_EXTREME))
    return packed


if __name__ == "__main__":
    made = make_dictionaries(Path(sys.argv[1]), DICTIONARIES_PATH)
    sys.stdout.write(f"wrote {len(made.gold)} and {len(made.silver)} words\n")
