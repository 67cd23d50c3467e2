"""Command `key`: the key on standard error, the line for the key file on standard output."""

import re

from realtime_tts.server.api_keys import KeyStore
from realtime_tts.server.rate_limit import QuotaLimits
from tests.cli.conftest import Command


def test_the_key_is_shown_once_and_the_file_gets_its_hash(command: Command) -> None:
    made = command("key", "alice", "--sessions", "2", "--chars-per-minute", "900")
    (key,) = re.findall(r"rtts_\S+", made.errors)
    assert key not in made.output
    found = KeyStore.from_lines(made.output.splitlines()).find(key)
    assert found is not None
    assert (found.name, found.limits) == ("alice", QuotaLimits(2, 900))
