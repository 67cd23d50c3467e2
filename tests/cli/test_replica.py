"""Command `replica`: its address, its secret, and a server that uses it."""

import os
import re
import subprocess
import sys

import pytest

from realtime_tts.cli.build import serving
from realtime_tts.client import Audio, connect
from realtime_tts.config.schema import ClusterSection, ModelSection, Secret, ServerConfig, ServerSection
from tests.cli.conftest import Command
from tests.fakes import spoken_pcm

TOKEN = "0123456789abcdef"


def test_it_requires_a_secret_one_model_and_an_address(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set REALTIME_TTS_CLUSTER_TOKEN" in command("replica").errors
    monkeypatch.setenv("REALTIME_TTS_CLUSTER_TOKEN", TOKEN)
    for address in ("9000", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x"):
        result = command("replica", "--listen", address)
        assert result.status == 2, address
        assert "is not HOST:PORT" in result.errors, address
    assert "a replica serves one model" in command("replica", "--model", "tone", "--model", "kokoro").errors


def test_a_short_secret_and_two_kinds_of_replicas_are_refused(command: Command) -> None:
    with pytest.raises(ValueError, match="at least 16 characters"):
        ClusterSection(token=Secret("short"))
    with pytest.raises(ValueError, match="exclude each other"):
        ClusterSection(replicas=2, addresses=("a:1",), token=Secret(TOKEN))
    with pytest.raises(ValueError, match="addresses need a token"):
        ClusterSection(addresses=("a:1",))
    assert "addresses need a token" in command("serve", "--replica", "127.0.0.1:1").errors


@pytest.mark.slow
async def test_a_server_speaks_through_a_replica_of_another_process() -> None:
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "realtime_tts", "replica", "--model", "tone", "--listen", "127.0.0.1:0"],
        env={**os.environ, "REALTIME_TTS_CLUSTER_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    ) as replica:
        try:
            assert replica.stderr is not None
            found = None
            while found is None:
                found = re.search(r"listening on (\S+)", replica.stderr.readline())
            config = ServerConfig(
                server=ServerSection(port=0),
                model=ModelSection(name=("tone",)),
                cluster=ClusterSection(addresses=(found[1],), token=Secret(TOKEN)),
            )
            async with serving(config, lambda _line: None) as (url, _server), connect(url) as session:
                await session.send_text("Hello there.")
                await session.done()
                audio = b"".join([event.data async for event in session.utterance() if isinstance(event, Audio)])
            assert audio == spoken_pcm("Hello there.")
        finally:
            replica.terminate()
        assert replica.wait(20) == 0
