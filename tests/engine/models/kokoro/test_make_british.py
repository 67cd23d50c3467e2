"""Generator of the British dictionaries."""

import json
import lzma
from pathlib import Path

from realtime_tts.engine.models.kokoro.make_british import make_dictionaries


def test_both_dictionaries_are_packed_and_a_word_is_in_one(tmp_path: Path) -> None:
    (tmp_path / "gb_gold.json").write_text(json.dumps({"bath": "bˈɑːθ", "use": {"DEFAULT": "jˈuːz", "NOUN": None}}))
    (tmp_path / "gb_silver.json").write_text(json.dumps({"bath": "x", "zebra": "zˈɛbɹə", "odd": None}))
    packed = make_dictionaries(tmp_path, tmp_path / "packed.xz")
    assert packed.silver == {"zebra": "zˈɛbɹə", "odd": None}
    assert json.loads(lzma.decompress((tmp_path / "packed.xz").read_bytes()))["gold"] == packed.gold
