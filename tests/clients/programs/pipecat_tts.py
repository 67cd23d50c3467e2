"""pipecat's OpenAI voice in a pipeline: prints a JSON object of the frames that came out."""

import asyncio
import json
import sys
from collections import Counter

from pipecat.frames.frames import TTSAudioRawFrame, TTSSpeakFrame
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.tests.utils import run_test


async def main() -> None:
    service = OpenAITTSService(api_key="none", base_url=sys.argv[1] + "/v1")
    speak = [TTSSpeakFrame(text="Hello from the pipeline."), TTSSpeakFrame(text="And a second sentence.")]
    down, up = await run_test(service, frames_to_send=speak, start_timeout=20.0)
    audio = [frame for frame in down if isinstance(frame, TTSAudioRawFrame)]
    print(
        json.dumps(
            {
                "down": Counter(type(frame).__name__ for frame in down),
                "up": Counter(type(frame).__name__ for frame in up),
                "rate_hz": sorted({frame.sample_rate for frame in audio}),
                "bytes": sum(len(frame.audio) for frame in audio),
            }
        )
    )


asyncio.run(main())
