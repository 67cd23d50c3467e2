"""A server with the embedded voice that starts, speaks and stops, and reports which addresses Python code asks for."""

import asyncio
import json
import sys
import urllib.request

from realtime_tts.cli.build import serving
from realtime_tts.config.schema import ModelSection, ServerConfig, ServerSection

NETWORK_EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
"""Audit events of Python's sockets.  Native code raises none: strace sees that."""
LOOPBACK = ("127.0.0.1", "localhost", None)

foreign: list[str] = []


def record(event: str, arguments: tuple[object, ...]) -> None:
    if event in NETWORK_EVENTS:
        address = arguments[1] if event == "socket.connect" else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if host not in LOOPBACK:
            foreign.append(f"{event} {host!r}")


def speak(url: str, text: str) -> int:
    body = json.dumps({"input": text, "response_format": "pcm"}).encode()
    request = urllib.request.Request(f"{url}/v1/audio/speech", body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
        return len(response.read())


async def main(sentences: int) -> None:
    sys.addaudithook(record)
    config = ServerConfig(server=ServerSection(port=0), model=ModelSection(name=("kokoro",)))
    async with serving(config, print) as (url, _server):
        sizes = [await asyncio.to_thread(speak, url, f"Number {number}.") for number in range(sentences)]
    print(json.dumps({"spoken": sum(size > 0 for size in sizes), "foreign": foreign}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
