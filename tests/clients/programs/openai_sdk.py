"""Requests of the `openai` package: prints a JSON object of what came back."""

import asyncio
import json
import sys

import openai

TEXT = "Hello there, how are you?"
VOICES = [
    "alloy",
    "ash",
    "ballad",
    "cedar",
    "coral",
    "echo",
    "fable",
    "marin",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
]
FORMATS = ["mp3", "opus", "aac", "flac", "wav", "pcm"]


def one_at_a_time(client: openai.OpenAI) -> dict[str, object]:
    speech = client.audio.speech
    voices = {
        voice: len(speech.create(model="gpt-4o-mini-tts", voice=voice, input="Hello.", response_format="pcm").content)
        for voice in VOICES
    }
    formats = {
        name: speech.create(model="tts-1", voice="alloy", input=TEXT, response_format=name).content[:4].hex()
        for name in FORMATS
    }
    with speech.with_streaming_response.create(
        model="tts-1", voice="nova", input=TEXT, response_format="pcm", speed=1.2, instructions="Be kind."
    ) as response:
        streamed = sum(len(part) for part in response.iter_bytes())
    with speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="nova", input=TEXT, response_format="pcm", stream_format="sse"
    ) as response:
        events = [json.loads(line[6:])["type"] for line in response.iter_lines() if line.startswith("data: {")]
    try:
        speech.create(model="tts-1", voice="nobody", input=TEXT)
        refusal = "none"
    except openai.BadRequestError as error:
        refusal = f"{error.param}: {error.message}"
    try:
        client.models.retrieve("no-such-model")
        missing = "none"
    except openai.NotFoundError as error:
        missing = str(error.code)
    return {
        "voices": voices,
        "formats": formats,
        "streamed": streamed,
        "events": sorted(set(events)),
        "refusal": refusal,
        "missing": missing,
        "models": [model.id for model in client.models.list()],
        "retrieved": client.models.retrieve("tts-1").id,
    }


async def at_once(url: str, count: int) -> list[int]:
    """Bytes of PCM of each of some requests at the same time."""
    async with openai.AsyncOpenAI(base_url=url) as client:
        answers = await asyncio.gather(
            *(
                client.audio.speech.create(model="tts-1", voice="alloy", input=f"Number {i}.", response_format="pcm")
                for i in range(count)
            )
        )
        return [len(answer.content) for answer in answers]


def main() -> None:
    url = sys.argv[1] + "/v1"
    with openai.OpenAI(base_url=url) as client:
        result = one_at_a_time(client)
    result["at_once"] = asyncio.run(at_once(url, 6))
    print(json.dumps(result))


main()
