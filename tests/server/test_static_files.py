"""The demo page's files reach a browser small, fresh and of the right kind, and it may do what it must and no more."""

import asyncio
import gzip
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from realtime_tts.server.static_files import DENIED, KINDS, demo_folder, send_file, takes_gzip
from tests.serving import bare_exchange, status_of, tone_server

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]


def answer(path: Path, **headers: str) -> web.Response:
    return send_file(make_mocked_request("GET", "/", headers=headers), path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.js"
    path.write_text("export const one = 1; // a line that is said again\n" * 20)
    return path


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


# -- Small -------------------------------------------------------------------------------------------------------------


def test_a_browser_that_takes_gzip_gets_less_and_the_same(script: Path) -> None:
    plain, zipped = answer(script), answer(script, **{"Accept-Encoding": "gzip, deflate, br"})
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"
    assert isinstance(plain.body, bytes)
    assert isinstance(zipped.body, bytes)
    assert gzip.decompress(zipped.body) == plain.body == script.read_bytes()
    assert len(zipped.body) < len(plain.body) / 4


def test_what_does_not_get_smaller_is_sent_as_it_is(tmp_path: Path) -> None:
    for name in ("small.js", "picture.png"):
        (tmp_path / name).write_bytes(b"." if name == "small.js" else b"." * 1000)
        response = answer(tmp_path / name, **{"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in response.headers
        assert response.body == (tmp_path / name).read_bytes()


@pytest.mark.parametrize(
    ("accepts", "taken"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=1.0", True),
        ("gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("*", False),
        ("xgzip", False),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_only_for_those_who_take_it(accepts: str, taken: bool) -> None:
    assert takes_gzip(accepts) is taken


# -- Fresh -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepts", ["", "gzip"])
def test_what_a_browser_has_is_not_sent_again(script: Path, accepts: str) -> None:
    tag = answer(script, **{"Accept-Encoding": accepts}).headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = answer(script, **{"Accept-Encoding": accepts, "If-None-Match": known})
        assert (again.status, again.body, again.headers["ETag"]) == (304, None, tag)
    other = "gzip" if not accepts else ""
    assert answer(script, **{"Accept-Encoding": other, "If-None-Match": tag}).status == 200


def test_a_file_that_has_changed_is_sent_again(script: Path) -> None:
    tag = answer(script).headers["ETag"]
    script.write_text("export const one = 2;\n")
    os.utime(script, ns=(1, 1))  # file systems may round the time of two writes to the same
    changed = answer(script, **{"If-None-Match": tag})
    assert changed.status == 200
    assert changed.body == b"export const one = 2;\n"


# -- Of the right kind, and nothing else -------------------------------------------------------------------------------


async def test_every_file_of_the_folder_is_served_as_what_it_is(url: str) -> None:
    folder = demo_folder()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {".html", ".js", ".css"} <= {path.suffix for path in files}
    async with aiohttp.ClientSession() as client:
        for path in files:
            async with client.get(f"{url}/static/{path.relative_to(folder).as_posix()}") as response:
                assert response.status == 200, path
                assert response.content_type == KINDS[path.suffix]
                assert response.charset == (None if path.suffix == ".png" else "utf-8")
                assert await response.read() == path.read_bytes()


def test_unknown_kinds_folders_and_what_is_not_there_are_not_served(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("secret")
    (tmp_path / "folder.js").mkdir()
    for name in ("notes.txt", "folder.js", "missing.js"):
        with pytest.raises(web.HTTPNotFound):
            answer(tmp_path / name)


@pytest.mark.parametrize("path", ["..%2findex.html", "x/../../pyproject.json", ".hidden.js", "a//b.js", "a%2fb.js"])
async def test_paths_that_lead_elsewhere_do_not_exist(url: str, path: str) -> None:
    request = f"GET /static/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert status_of(await bare_exchange(url, request.encode())) == 404


# -- What the page may do ----------------------------------------------------------------------------------------------


async def test_the_page_may_hear_and_nothing_else_of_what_asks(url: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        policy = dict(each.split("=") for each in response.headers["Permissions-Policy"].split(", "))
        connect = response.headers["Content-Security-Policy"].split("connect-src ")[1].split(";")[0]
    assert policy.pop("microphone") == "(self)"
    assert policy == dict.fromkeys(DENIED, "()")
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
async def test_in_a_browser_all_that_the_page_needs_works_and_nothing_goes_elsewhere(url: str) -> None:
    async_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    complaints: list[str] = []
    async with tone_server() as (other_url, _), async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        try:
            page = await browser.new_page()
            page.on("console", lambda line: complaints.append(line.text))
            await page.goto(url)
            await page.wait_for_load_state("networkidle")
            before = list(complaints)
            async with page.expect_download() as download:
                found: dict[str, Any] = await page.evaluate(
                    IN_THE_PAGE,
                    {
                        "stream": f"{url.replace('http', 'ws')}/v1/audio/speech/stream",
                        "elsewhere": f"{other_url.replace('http', 'ws')}/v1/audio/speech/stream",
                        "worklet": f"{url}/static/player-worklet.js",
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
    assert any("connect-src 'self'" in line for line in complaints), complaints
