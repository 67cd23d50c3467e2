"""The demo page's files: content, conditional requests, path checks, and what the security headers allow."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from realtime_tts.server.static_files import DENIED_FEATURES, SECURITY_HEADERS, demo_folder
from tests.serving import bare_exchange, status_of, tone_server

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]
CONTENT_TYPES = {
    ".html": {"text/html"},
    ".css": {"text/css"},
    ".js": {"text/javascript", "application/javascript"},  # Python 3.12 changed its table
}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


async def test_every_file_is_served_with_its_content_type_and_all_security_headers(url: str) -> None:
    files = [path for path in demo_folder().rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == set(CONTENT_TYPES)
    paths = {f"/static/{path.relative_to(demo_folder()).as_posix()}": path for path in files}
    paths["/"] = demo_folder() / "index.html"
    async with aiohttp.ClientSession() as client:
        for name, path in paths.items():
            async with client.get(url + name) as response:
                assert response.status == 200, name
                assert response.content_type in CONTENT_TYPES[path.suffix], name
                assert {field: response.headers[field] for field in SECURITY_HEADERS} == SECURITY_HEADERS, name
                assert await response.read() == path.read_bytes(), name


async def test_an_unchanged_file_is_answered_with_304_and_the_connection_stays_usable(url: str) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
        async with client.get(f"{url}/static/app.js") as response:
            etag = response.headers["ETag"]
        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            async with client.get(f"{url}/static/app.js", headers={"If-None-Match": known}) as response:
                assert (response.status, await response.read(), response.headers["ETag"]) == (304, b"", etag), known
                assert response.headers["Cache-Control"] == "no-cache"
        async with client.get(f"{url}/static/app.js", headers={"If-None-Match": '"other"'}) as response:
            assert response.status == 200
            assert await response.read() == (demo_folder() / "app.js").read_bytes()


async def test_folders_missing_files_and_paths_out_of_the_folder_are_refused(url: str) -> None:
    paths = (
        *("", "audio", "audio/", "missing.js", "../realtime_tts/client.py", "x/../../pyproject.toml"),
        *("..%2fpyproject.toml", "%2e%2e/pyproject.toml", "%2fetc%2fpasswd", "/etc/passwd"),
    )
    for path in paths:
        request = f"GET /static/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert status_of(await bare_exchange(url, request.encode())) in (403, 404), path


async def test_the_page_may_use_the_microphone_and_no_other_device(url: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        policy = dict(each.split("=") for each in response.headers["Permissions-Policy"].split(", "))
        connect = response.headers["Content-Security-Policy"].split("connect-src ")[1].split(";")[0]
    assert policy.pop("microphone") == "(self)"
    assert policy == dict.fromkeys(DENIED_FEATURES, "()")
    assert connect == "'self'"


IN_THE_PAGE = """async ({stream, elsewhere, worklet}) => {
    const opens = (address) => new Promise((done) => {
        try {
            const socket = new WebSocket(address, "realtime-tts.v1");
            socket.onopen = () => { socket.close(); done(true); };
            socket.onerror = () => done(false);
        } catch { done(false); }
    });
    const opus = {codec: "opus", sampleRate: 48000, numberOfChannels: 1};
    const works = (promise) => promise.then(() => true, () => false);
    const link = Object.assign(document.createElement("a"), {
        href: URL.createObjectURL(new Blob(["speech"])), download: "speech.wav",
    });
    document.body.append(link);
    link.click();
    return {
        own: await opens(stream),
        elsewhere: await opens(elsewhere),
        worklet: await works(new AudioContext().audioWorklet.addModule(worklet)),
        microphone: await works(navigator.mediaDevices.getUserMedia({audio: true})),
        camera: await works(navigator.mediaDevices.getUserMedia({video: true})),
        codec: (await AudioDecoder.isConfigSupported(opus)).supported,
        code: (() => { try { return Function("return 1")(); } catch { return null; } })(),
    };
}"""


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed")
async def test_a_browser_allows_what_the_page_needs_and_blocks_other_hosts(url: str) -> None:
    async_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    console_lines: list[str] = []
    async with tone_server() as (other_url, _), async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        try:
            page = await browser.new_page()
            page.on("console", lambda line: console_lines.append(line.text))
            await page.goto(url)
            await page.wait_for_load_state("networkidle")
            before = list(console_lines)
            async with page.expect_download() as download:
                found: dict[str, Any] = await page.evaluate(
                    IN_THE_PAGE,
                    {
                        "stream": f"{url.replace('http', 'ws')}/v1/audio/speech/stream",
                        "elsewhere": f"{other_url.replace('http', 'ws')}/v1/audio/speech/stream",
                        "worklet": f"{url}/static/audio/player-worklet.js",
                    },
                )
            saved = await asyncio.to_thread(Path(await (await download.value).path()).read_text)
        finally:
            await browser.close()
    assert before == []
    assert saved == "speech"
    assert found == {
        "own": True,
        "elsewhere": False,
        "worklet": True,
        "microphone": True,
        "camera": False,
        "codec": True,
        "code": None,
    }
    assert any("connect-src 'self'" in line for line in console_lines), console_lines
