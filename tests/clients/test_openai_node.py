"""The `openai` package for JavaScript: in Node.js, and in Chromium from a page of another origin."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.conftest import RunsProgram, serve
from tests.clients.environments import node_modules
from tests.clients.reference import PCM_BYTES_PER_S, is_format

PAGE = """<!doctype html><title>SDK</title><script type="module">
import OpenAI from "/openai/index.mjs";
window.speak = async (url) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", dangerouslyAllowBrowser: true });
  const request = { model: "tts-1", voice: "nova", input: "Hello from a browser.", response_format: "pcm" };
  return (await (await client.audio.speech.create(request)).arrayBuffer()).byteLength;
};
window.isLoaded = true;
</script>"""


def test_node_receives_every_format_streams_and_aborts(server: str, program: RunsProgram) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("Node.js is not installed")
    result = program(node, "openai_sdk.mjs", str(node_modules()), server)
    for name, begin in result["formats"].items():
        assert is_format(bytes.fromhex(begin), name), (name, begin)
    assert result["bytes"] > 0.5 * PCM_BYTES_PER_S
    assert result["aborted"] == "APIUserAbortError"
    assert result["refusal"] == "400 voice"
    assert result["retrieved"] == "tts-1"
    assert "kokoro" in result["models"]


def test_a_page_of_another_origin_speaks_where_all_origins_are_allowed(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("Chromium is not installed")
    with page_server(tmp_path) as page_url, serve(tmp_path / "log", "--origins", "*") as server:  # noqa: SIM117
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(page_url)
            page.wait_for_function("window.isLoaded")
            size = page.evaluate("(url) => window.speak(url)", server)
            browser.close()
    assert size > 0.5 * PCM_BYTES_PER_S


@contextmanager
def page_server(folder: Path) -> Iterator[str]:
    (folder / "index.html").write_text(PAGE, "utf-8")
    (folder / "openai").symlink_to(node_modules() / "openai")
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/"
        listening.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_arguments: object) -> None:
        pass
