"""livekit's OpenAI voice, whole and by sentence: prints a JSON object of seconds of audio by response format."""

import asyncio
import json
import sys

from livekit.agents import tokenize, tts
from livekit.plugins import openai

TEXT = "Hello from the agent. And a second sentence."


async def main() -> None:
    seconds = {}
    for form in ("mp3", "wav", "opus", "flac", "pcm", "aac"):
        for model in ("gpt-4o-mini-tts", "tts-1"):
            voice = openai.TTS(base_url=sys.argv[1] + "/v1", api_key="none", response_format=form, model=model)
            seconds[f"{form} {model}"] = sum([event.frame.duration async for event in voice.synthesize(TEXT)])
            await voice.aclose()
    voice = openai.TTS(base_url=sys.argv[1] + "/v1", api_key="none")
    adapter = tts.StreamAdapter(tts=voice, sentence_tokenizer=tokenize.basic.SentenceTokenizer())
    stream = adapter.stream()
    stream.push_text(TEXT)
    stream.end_input()
    seconds["by sentence"] = sum([event.frame.duration async for event in stream])
    await stream.aclose()
    await adapter.aclose()
    await voice.aclose()
    print(json.dumps(seconds))


asyncio.run(main())
