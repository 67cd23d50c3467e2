"""Coverage-guided fuzzing of the parsers and the session, with atheris (`pip install 'realtime-tts[fuzz]'`).

  python -m bench.fuzz messages    any bytes as a frame from the client: a message or a typed error
  python -m bench.fuzz text        any text, split anywhere: the same sentences, from the same positions
  python -m bench.fuzz session     any frames, engine events and times: every started sentence also ends

--seconds bounds the run; a crash, an input of more than --timeout seconds and memory growth are failures, and the
input is written to a file.  Arguments after `--` are passed to libFuzzer.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bench.options import make_parser
from realtime_tts.engine.api import AudioReady, FinishReason, RequestFinished, Submit, Word, WordsReady
from realtime_tts.engine.models import tone
from realtime_tts.errors import RealtimeTTSError, SynthesisFailed
from realtime_tts.frontends.native.decode import decode
from realtime_tts.frontends.native.encode import NativeEncoder
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, encode
from realtime_tts.session.events import AudioChunk, AudioEnd, Closed, SentenceDone, SentenceStarted, SessionEvent
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.session import Command, Session
from realtime_tts.text.cleaner import TextCleaner, TextFilter
from realtime_tts.text.pronunciations import Pronunciations
from realtime_tts.text.splitter import Sentence, SentenceSplitter

MAX_INPUT_BYTES = 2048
KINDS = list(CLIENT_MESSAGES)
FILTERS = list(TextFilter)
LANGUAGES = ("en", "de", "zh", "fr", "Auto")
INFO = tone.info()


def messages(data: Any) -> None:
    frame = data.ConsumeBytes(MAX_INPUT_BYTES)
    with suppress(RealtimeTTSError):
        decode(frame, is_binary=False, max_message_bytes=MAX_INPUT_BYTES)


def text(data: Any) -> None:
    filters = frozenset(each for each in FILTERS if data.ConsumeBool())
    language = LANGUAGES[data.ConsumeIntInRange(0, len(LANGUAGES) - 1)]
    sizes = [data.ConsumeIntInRange(0, 40) for _ in range(data.ConsumeIntInRange(0, 12))]
    received = data.ConsumeUnicode(MAX_INPUT_BYTES)
    whole, sliced = _sentences([received], filters, language), _sentences(_slices(received, sizes), filters, language)
    assert whole == sliced, f"split at {sizes}: {sliced} differs from {whole}"
    ends = [0, *(offset for _, span in whole for offset in span)]
    assert ends == sorted(ends), f"sentences are not in order: {ends}"
    assert ends[-1] <= len(received)
    if not filters:
        dropped = "".join(received.split())
        assert len("".join("".join(text.split()) for text, _ in whole)) <= len(dropped)
    for sentence, _ in whole:
        Pronunciations({"a": "b", "SQL": "sequel"}).respell(sentence)


def _slices(received: str, sizes: list[int]) -> list[str]:
    slices = []
    for size in sizes:
        slices.append(received[:size])
        received = received[size:]
    return [*slices, received]


def _sentences(slices: list[str], filters: frozenset[TextFilter], language: str) -> list[tuple[str, tuple[int, int]]]:
    cleaner, splitter = TextCleaner(filters), SentenceSplitter(language=language, max_chars=100)
    found: list[Sentence] = []
    for each in slices:
        found += splitter.push(cleaner.push(each))
    found += splitter.push(cleaner.flush())
    found += splitter.finish()
    return [(each.text, (cleaner.source(each.start), cleaner.source_end(each.end))) for each in found]


class _SessionHarness:
    """A session whose client and engine are controlled by the data."""

    def __init__(self, data: Any) -> None:
        self.data = data
        limits = SessionLimits(max_contexts=3, max_pending_chars=4000, max_utterance_chars=8000)
        self.session = Session("sid", {"tone": INFO}, limits, now_s=0.0, expires_at_unix_s=0.0)
        self.encoder = NativeEncoder("sid")
        self.now_s = 0.0
        self.running: list[str] = []
        self.open = 0
        self.close_code: int | None = None

    def do(self, commands: list[Command]) -> None:
        self.running += [command.request.request_id for command in commands if isinstance(command, Submit)]

    def receive(self, frame: str) -> None:
        try:
            item = decode(frame.encode("utf-8", "surrogatepass"), is_binary=False, max_message_bytes=256 * 1024)
        except RealtimeTTSError as error:
            self.do(self.session.reject(error, self.now_s))
        else:
            self.do(self.session.receive(item, self.now_s))

    def step(self) -> None:
        match self.data.ConsumeIntInRange(0, 6):
            case 0:
                self.receive(self.data.ConsumeUnicode(60))
            case 1 | 2:
                self.receive(self._message())
            case 3:
                self._engine()
            case 4:
                self.now_s += self.data.ConsumeIntInRange(0, 400) / 10
                if self.now_s >= self.session.deadline_s:
                    self.do(self.session.on_time(self.now_s))
            case _:
                for _ in range(self.data.ConsumeIntInRange(0, 5)):
                    self._send(self.session.next())

    def _message(self) -> str:
        data = self.data
        kind = KINDS[data.ConsumeIntInRange(0, len(KINDS) - 1)]
        fields: dict[str, str | int | bool] = {"type": kind}
        texts = ("text", "context_id", "voice", "language")
        numbers = ("played_ms", "buffered_ms", "playback_offset_ms", "speed", "sample_rate")
        flags = ("stream_audio", "frame_header", "word_timestamps")
        fields |= {name: data.ConsumeUnicodeNoSurrogates(40) for name in texts if data.ConsumeBool()}
        fields |= {name: data.ConsumeIntInRange(-1, 50_000) for name in numbers if data.ConsumeBool()}
        fields |= {name: data.ConsumeBool() for name in flags if data.ConsumeBool()}
        return encode(fields).decode()

    def _engine(self) -> None:
        if not self.running:
            return
        request_id = self.running[self.data.ConsumeIntInRange(0, len(self.running) - 1)]
        match self.data.ConsumeIntInRange(0, 3):
            case 0:
                samples = np.full(self.data.ConsumeIntInRange(0, 4000), 0.1, np.float32)
                self.do(self.session.on_engine(AudioReady(request_id, samples), self.now_s))
            case 1:
                words = (Word(0, self.data.ConsumeIntInRange(0, 9), 0.0, 0.5),)
                self.do(self.session.on_engine(WordsReady(request_id, words), self.now_s))
            case _:
                self.running.remove(request_id)
                error = SynthesisFailed("broken") if self.data.ConsumeBool() else None
                reason = FinishReason.COMPLETE if error is None else FinishReason.ERROR
                self.do(self.session.on_engine(RequestFinished(request_id, reason, error=error), self.now_s))

    def send_all(self) -> None:
        while (event := self.session.next()) is not None:
            self._send(event)

    def _send(self, event: SessionEvent | None) -> None:
        if event is None:
            return
        if isinstance(event, Closed):
            self.close_code = event.code
        elif isinstance(event, AudioChunk | AudioEnd):
            assert self.open, "audio outside of a sentence"
        elif isinstance(event, SentenceStarted):
            self.open += 1
        elif isinstance(event, SentenceDone):
            self.open -= 1
        for frame in self.encoder.encode(event):
            if frame.audio_s:
                self.session.on_audio_sent(event, frame.audio_s, self.now_s)
            if not self.session.wants(event):
                break
        self.do(self.session.on_event_sent(event, self.now_s))


def session(data: Any) -> None:
    harness = _SessionHarness(data)
    while data.remaining_bytes():
        harness.step()
    if not harness.session.closed:
        harness.receive('{"type":"session.close"}')
        harness.send_all()
        while harness.running and not harness.session.closed:
            finished = RequestFinished(harness.running.pop(0), FinishReason.COMPLETE)
            harness.do(harness.session.on_engine(finished, harness.now_s))
            harness.send_all()
    harness.send_all()
    assert harness.session.closed, "the session does not end"
    assert harness.close_code != 1000 or harness.open == 0, "a sentence was started and not ended"


def _example(kind: str) -> str:
    """A message with all its fields, as a seed."""
    fields = CLIENT_MESSAGES[kind].__struct_fields__
    return encode({"type": kind, **{name: name for name in fields}}).decode()


EXAMPLES = {
    "messages": [_example(kind) for kind in KINDS],
    "text": [
        "Dr. O'Neil paid $3.50 at 10:30 p.m. Then he left... \u201cReally?\u201d",
        "# Title\n- **bold** and `code` [a](https://example.com/x_y) \n```py\nx = 1\n```\n<think>no</think> 1 < 2",
        "今天天气很好。「是吗？」我们走吧！ 👩‍👩‍👧 🇩🇪 5️⃣",
    ],
    "session": [],
}
TARGETS: dict[str, Callable[[Any], None]] = {"messages": messages, "text": text, "session": session}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser("bench.fuzz", __doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600, help="duration of the run")
    parser.add_argument("--timeout", type=int, default=5, help="for one input, in seconds")
    parser.add_argument("--rss-mb", type=int, default=1024, help="memory limit")
    parser.add_argument("libfuzzer", nargs="*", help="arguments of libFuzzer")
    args = parser.parse_args(arguments)
    try:
        import atheris
    except ImportError:
        sys.stderr.write("Error: atheris is not installed: pip install 'realtime-tts[fuzz]'\n")
        return 2
    target = TARGETS[args.target]
    limits = [
        f"-max_total_time={args.seconds}",
        f"-timeout={args.timeout}",
        f"-rss_limit_mb={args.rss_mb}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={tempfile.gettempdir()}/realtime-tts-fuzz-",
    ]
    atheris.instrument_all()
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder)
        for number, example in enumerate(EXAMPLES[args.target]):
            (seeds / str(number)).write_bytes(example.encode())
        command = [sys.argv[0], *limits, *args.libfuzzer, folder]
        atheris.Setup(command, lambda raw: target(atheris.FuzzedDataProvider(raw)))
        atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main())
