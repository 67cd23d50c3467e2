"""Server that makes each sentence whole before sending it, like common Kokoro servers: ours without streaming.

    python -m bench.peers.whole_sentence --port 8880

The weights, voices, pronunciation, sentence rules, onnxruntime settings and trimmed silence are those of our server,
and the model is the undivided one, so that only the engines differ.  POST /v1/audio/speech accepts `input` and answers
with raw 16-bit PCM in HTTP chunks, one per sentence.  It computes one sentence at a time, in the order of the requests;
computing several at once on the same cores would only delay all of them.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from aiohttp import web

from bench.request_record import AUDIBLE
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.text.splitter import SentenceSplitter

SAMPLE_RATE_HZ = 24_000
LEAD_IN_SAMPLES = 1200
"""50 ms before the first audible sample, as our server keeps (engine/models/kokoro/frames.py)."""

Samples = npt.NDArray[np.float32]
Speak = Callable[[str], Samples]
"""Converts one sentence to all of its audio, in [-1, 1]."""


def kokoro_voice(voice: str, threads: int) -> Speak:
    from realtime_tts.engine.models.kokoro.acoustic import text_inputs
    from realtime_tts.engine.models.kokoro.phonemes import Pronouncer
    from realtime_tts.engine.models.kokoro.styles import load_styles
    from realtime_tts.engine.models.kokoro.unmodified import load_unmodified
    from realtime_tts.engine.models.kokoro.weights import find_weights

    style, read = load_styles()[voice], Pronouncer().read
    session = load_unmodified(find_weights(), threads=threads)

    def speak(text: str) -> Samples:
        parts = [np.zeros(0, np.float32)]
        for piece in read(text):
            (samples,) = session.run(None, text_inputs(piece.tokens, style))
            parts.append(without_leading_silence(samples.reshape(-1)))
        return np.concatenate(parts)

    return speak


def tone_voice(text: str) -> Samples:
    return tone.render(SynthesisRequest("peer", "peer", text, "tone_low"))


def without_leading_silence(samples: Samples) -> Samples:
    audible = np.flatnonzero(np.abs(samples) > AUDIBLE / 32768)
    return samples[max(0, int(audible[0]) - LEAD_IN_SAMPLES) :] if len(audible) else samples


def pcm16(samples: Samples) -> bytes:
    return np.rint(np.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes()


def app(speak: Speak) -> web.Application:
    application = web.Application()
    application.router.add_post("/v1/audio/speech", partial(_speech, speak, asyncio.Lock()))
    return application


async def _speech(speak: Speak, lock: asyncio.Lock, request: web.Request) -> web.StreamResponse:
    splitter = SentenceSplitter()
    text = str((await request.json())["input"])
    response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
    await response.prepare(request)
    for sentence in (*splitter.push(text), *splitter.finish()):
        async with lock:  # asyncio's locks are fair: requests are served in order
            samples = await asyncio.to_thread(speak, sentence.text)
        await response.write(pcm16(samples))
    await response.write_eof()
    return response


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers.whole_sentence",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", choices=("kokoro", "tone"), default="kokoro")
    parser.add_argument("--voice", default="af_heart", help="of kokoro (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="cores for one computation (%(default)s)")
    args = parser.parse_args(arguments)
    speak = kokoro_voice(args.voice, args.threads) if args.model == "kokoro" else tone_voice
    web.run_app(app(speak), host="127.0.0.1", port=args.port, print=lambda _line: None)


if __name__ == "__main__":
    main()
