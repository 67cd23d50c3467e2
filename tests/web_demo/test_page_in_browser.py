"""The page in Chromium, with the fake server: playback, barge-in, gaps, errors, panels, accessibility."""

import asyncio
import io
import json
import os
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.web_demo.browser import MARKS, browsing, slide, until
from tests.web_demo.fake_server import Behaviour, serving

pytestmark = MARKS
TEXT = "One sentence to begin with. Then a second one. And a third at the end."
AXE = os.environ.get("AXE_JS")
"""The path of axe.min.js, from the npm package axe-core."""
TABS = ("latency", "network", "barge", "load", "compare", "texts", "messages", "export")


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
async def page(behaviour: Behaviour) -> AsyncIterator[Any]:
    """The demo page, ready to speak."""
    async with serving(behaviour) as url, browsing(url, viewport={"width": 1280, "height": 900}) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", TEXT)
        yield page


def input_types(behaviour: Behaviour) -> list[object]:
    """The types of the received messages, without configuration and playback reports."""
    return [
        message["type"]
        for message in behaviour.received
        if message["type"] not in ("playback.report", "session.config")
    ]


# -- Speaking ----------------------------------------------------------------------------------------------------------


async def test_an_utterance_plays_to_the_end_without_a_gap(page: Any, behaviour: Behaviour) -> None:
    await page.click("#speak")
    loud = await until(page, "s.rms > 0.05")
    assert loud["state"] == "speaking"
    assert loud["first_packet_ms"] < loud["first_audible_ms"] < 3000
    end = await until(page, "s.outcome !== null && s.buffered_ms === 0")
    assert (end["outcome"], end["underruns"], end["problem"]) == ("spoken", 0, None)
    assert end["played_ms"] == pytest.approx(end["report"]["audio_s"] * 1000, abs=0.001)
    assert input_types(behaviour) == ["input.text", "input.done"]
    assert behaviour.messages("session.config")[-1]["voice"] == "af_heart"
    assert await page.locator("#transcript .sentence[data-state=played]").count() == 3
    assert (await page.inner_text("#verdict")).startswith("0 gaps")


async def test_the_first_audible_sample_is_not_before_its_packet(page: Any, behaviour: Behaviour) -> None:
    """An audio device that has just opened reports times that are too early."""
    behaviour.first_packet_s, behaviour.speed = 0.0, 30
    await page.click("#speak")
    snapshot = await until(page, "s.played_ms > 700")
    assert snapshot["first_packet_ms"] < snapshot["first_audible_ms"]


async def test_the_word_that_is_played_is_highlighted_not_the_one_that_arrives(page: Any, behaviour: Behaviour) -> None:
    behaviour.speed, behaviour.seconds_per_character = 100, 0.15  # all audio arrives during the first sentence
    await page.click("#speak")
    await until(page, "s.played_ms > 200 && s.buffered_ms > 5000 && s.server_report !== null")
    assert await page.locator("#transcript .sentence").count() == 3
    assert await page.inner_text("#transcript [aria-current=true]") == "One sentence to begin with."
    assert await page.inner_text("#transcript .word[data-state=now]") in "One sentence to begin with."
    await until(page, "s.played_ms > 4200")
    assert await page.inner_text("#transcript [aria-current=true]") == "Then a second one."
    assert not await page.is_visible("#timings-note")


async def test_without_word_times_whole_sentences_are_highlighted_with_a_note(page: Any, behaviour: Behaviour) -> None:
    behaviour.times_words, behaviour.seconds_per_character = False, 0.15
    await page.click("#speak")
    await until(page, "s.played_ms > 200")
    assert await page.inner_text("#transcript .sentence[data-state=now]") == "One sentence to begin with."
    assert await page.locator("#transcript .word").count() == 0
    assert "whole sentences are highlighted" in await page.inner_text("#timings-note")


async def test_text_in_token_mode_is_sent_in_tokens_and_waits_for_text_are_not_gaps(
    page: Any, behaviour: Behaviour
) -> None:
    behaviour.speed = 100
    await page.click("label[for=mode-live]")
    await slide(page, "#rate", 100)
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    pieces = [str(message["text"]) for message in behaviour.messages("input.text")]
    assert "".join(pieces) == TEXT
    assert len(pieces) >= len(TEXT.split())
    assert end["underruns"] == 0
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)


async def test_a_second_utterance_uses_the_open_connection(page: Any, behaviour: Behaviour) -> None:
    for _ in range(2):
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
    assert not behaviour.closed.is_set()
    assert len(behaviour.messages("input.done")) == 2
    contexts = [message["context_id"] for message in behaviour.messages("input.done")]
    assert contexts[0] != contexts[1]


async def test_voices_are_grouped_by_language_and_filtered_by_the_selected_language(
    page: Any, behaviour: Behaviour
) -> None:
    count = "all => all.map(g => [g.label, g.children.length])"
    groups = await page.eval_on_selector_all("#voice optgroup", count)
    assert groups == [["American English", 3], ["British English", 2], ["Japanese", 1]]
    await page.click("#more summary")
    await page.select_option("#language", label="British English")
    assert await page.eval_on_selector_all("#voice optgroup", count) == [["British English", 2]]
    await page.select_option("#voice", label="Emma — British, female")
    await slide(page, "#speed", 1.25)
    await page.click("#speak")
    await until(page, "s.rms > 0.05")
    config = behaviour.messages("session.config")[-1]
    assert (config["voice"], config["language"], config["speed"]) == ("bf_emma", "en-GB", 1.25)


async def test_an_empty_text_shows_a_message(page: Any, behaviour: Behaviour) -> None:
    await page.fill("#text", "   ")
    await page.click("#speak")
    assert "no text to speak" in await page.inner_text("#problem")
    assert input_types(behaviour) == []


# -- Stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["Space", "Escape"])
async def test_a_key_silences_within_50_ms_and_the_server_splits_the_text(
    page: Any, behaviour: Behaviour, key: str
) -> None:
    await page.click("#speak")
    await until(page, "s.played_ms > 600")
    await page.keyboard.press(key)
    stopped = await until(page, "s.silent_after_ms !== null && s.rms === 0 && s.cancelled_after_ms !== null")
    assert (stopped["state"], stopped["outcome"], stopped["buffered_ms"]) == ("idle", "stopped", 0)
    assert stopped["silent_after_ms"] < 50
    cancel = behaviour.messages("input.cancel")[0]
    played, remaining = await page.inner_text("#transcript .played"), await page.inner_text("#transcript .remaining")
    assert played + remaining == TEXT
    played_ms = float(str(cancel["playback_offset_ms"]))
    assert len(played) == round(played_ms / 1000 / behaviour.seconds_per_character)
    assert played_ms == pytest.approx(stopped["played_ms"], abs=250)  # the audio device's latency is not played yet
    assert not behaviour.closed.is_set()


async def test_the_space_bar_types_a_space_in_a_text_field(page: Any) -> None:
    await page.click("#speak")
    await until(page, "s.rms > 0.05")
    await page.focus("#text")
    await page.keyboard.press("End")
    await page.keyboard.press("Space")
    assert (await page.input_value("#text")).endswith(" ")
    assert (await page.evaluate("window.rtts"))["state"] == "speaking"


async def test_after_a_stop_the_next_utterance_plays(page: Any) -> None:
    for _ in range(3):
        await page.focus("#text")
        await page.keyboard.press("Control+Enter")
        await until(page, "s.rms > 0.05")
        await page.click("#stop")
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    assert end["underruns"] == 0


async def test_speech_at_the_microphone_stops_the_utterance(behaviour: Behaviour, tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(voice_like())
    context = {"permissions": ["microphone"]}
    async with serving(behaviour) as url, browsing(url, microphone=tmp_path / "voice.wav", **context) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", TEXT * 8)
        await page.click("#tab-barge")
        await page.click("#speak")
        await until(page, "s.rms > 0.05")
        await page.check("#mic")
        stopped = await until(page, "s.outcome === 'stopped'")
        assert stopped["problem"] is None


def voice_like() -> bytes:
    """A WAV file that noise suppression keeps: syllables of a harmonic sound, with pauses."""
    t = np.arange(5 * 48000) / 48000
    buzz = sum(np.sin(2 * np.pi * 140 * k * t * (1 + 0.03 * np.sin(2 * np.pi * 2 * t))) / k for k in range(1, 20))
    loud = np.clip(np.sin(2 * np.pi * 3 * t) * 2, 0, 1)
    samples = (0.4 * buzz * loud * (t > 0.5) * 32767 / np.abs(buzz).max()).astype("<i2")
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setparams((1, 2, 48000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return data.getvalue()


# -- Gaps --------------------------------------------------------------------------------------------------------------


async def test_a_stall_is_one_gap(page: Any, behaviour: Behaviour) -> None:
    behaviour.stall_after_s, behaviour.stall_s = 0.4, 1.2
    await page.click("#speak")
    gap = await until(page, "s.gap_open_ms > 0")
    assert gap["underruns"] == 0  # counted when audio ends it
    end = await until(page, "s.outcome === 'spoken' && s.server_report !== null")
    assert end["underruns"] == end["report"]["underrun_count"] == end["server_report"]["underrun_count"] == 1
    assert 200 < end["worst_gap_ms"] < 1300
    assert end["buffer_target_ms"] > 60  # adapted to the delay
    assert (await page.inner_text("#verdict")).startswith("1 gap · worst")
    assert await page.get_attribute("#verdict", "data-state") == "bad"


async def test_simulated_network_delays_appear_on_the_page_and_not_at_the_server(
    page: Any, behaviour: Behaviour
) -> None:
    behaviour.speed = 1.2
    await page.click("#tab-network")
    await slide(page, "#jitter", 400)
    await slide(page, "#loss", 20)
    await page.click("#panel-network [data-speak]")
    end = await until(page, "s.outcome === 'spoken' && s.server_report !== null", 30)
    assert end["report"]["max_underrun_s"] * 1000 > end["server_report"]["max_underrun_ms"] + 50
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)  # late but complete


# -- Errors ------------------------------------------------------------------------------------------------------------


async def test_a_lost_connection_is_reported_and_the_next_utterance_reconnects(page: Any, behaviour: Behaviour) -> None:
    behaviour.drop_after_s = 0.3
    await page.click("#speak")
    end = await until(page, "s.outcome !== null")
    assert end["outcome"] == "failed"
    assert await page.inner_text("#problem") == end["problem"] == "An error occurred on the server. Try again."
    behaviour.drop_after_s = None
    await page.click("#speak")
    await until(page, "s.outcome === 'spoken'")
    assert not await page.is_visible("#problem")
    assert await page.inner_text("#connection") == "Connected"


async def test_a_server_that_is_not_ready_is_reported(page: Any, behaviour: Behaviour) -> None:
    behaviour.refuse = True
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert "not ready" in end["problem"]
    assert await page.is_visible("#problem")


async def test_a_refused_request_is_reported_with_the_retry_time(page: Any, behaviour: Behaviour) -> None:
    behaviour.error = {"code": "overloaded", "message": "full", "retry_after_ms": 2400}
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert "Try again in 3 s" in end["problem"]
    assert end["played_ms"] == 0


async def test_a_server_with_api_keys_receives_single_use_tokens(behaviour: Behaviour) -> None:
    behaviour.key = "test-key"
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#key-dialog[open]")
        await page.fill("#key", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#key-problem:not([hidden])")
        await page.fill("#key", "test-key")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
        assert behaviour.tokens == []  # each was used once
        assert await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [0, 0, ""]


# -- Panels ------------------------------------------------------------------------------------------------------------


async def test_the_report_and_the_audio_can_be_saved(page: Any, tmp_path: Path) -> None:
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    await page.click("#tab-export")
    async with page.expect_download() as download:
        await page.click("#save-report")
    await (await download.value).save_as(tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    client, server = report["continuity"]["client"], report["continuity"]["server"]
    assert report["text"] == TEXT
    assert client["audio_s"] * 1000 == pytest.approx(server["audio_ms"], abs=0.01)
    assert client["underrun_count"] == server["underrun_count"] == 0
    assert len(report["packets"]) == client["packets"]
    assert report["latency"][0]["name"] == "asked"
    async with page.expect_download() as download:
        await page.click("#save-wav")
    await (await download.value).save_as(tmp_path / "audio.wav")
    with wave.open(str(tmp_path / "audio.wav")) as file:
        assert file.getnframes() / file.getframerate() * 1000 == pytest.approx(end["played_ms"], abs=0.1)


async def test_the_message_panel_lists_every_message_and_the_latency_panel_every_step(page: Any) -> None:
    await page.click("#speak")
    await until(page, "s.outcome === 'spoken'")
    steps = await page.locator("#latency .name").all_inner_texts()
    assert steps[0] == "connect"
    assert steps[-2:] == ["first packet", "first audible sample"]
    await page.click("#tab-messages")
    types = await page.locator("#messages b").all_inner_texts()
    for kind in ("session.config", "input.text", "input.done", "audio.start", "audio", "audio.done", "session.done"):
        assert kind in types
    await page.locator("#messages summary").last.click()
    last = json.loads(await page.locator("#messages pre").inner_text())
    assert last["type"] == types[-1]


async def test_a_difficult_text_is_spoken_by_one_click_and_shown_as_spoken(page: Any, behaviour: Behaviour) -> None:
    await page.click("#tab-texts")
    await page.click("#texts button:has-text('Short sentences')")
    await until(page, "s.played_ms > 0")
    text = behaviour.messages("input.text")[0]["text"]
    assert text == await page.input_value("#text")
    await until(page, "s.outcome === 'spoken'", 30)
    rows = await page.locator("#spoken-rows tr").all_inner_texts()
    assert rows[0].split("\t")[1:3] == ["No.", "No."]


async def test_other_listeners_speak_beside_ours_until_they_are_stopped(page: Any, behaviour: Behaviour) -> None:
    await page.click("#tab-load")
    await page.click("label[for=load-8]")
    await page.click("#load-start")
    await page.wait_for_selector("#l-speaking:text-is('8')")
    await page.click("#panel-load [data-speak]")
    end = await until(page, "s.outcome === 'spoken'", 30)
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)
    assert len(behaviour.connections) == 9
    await page.click("#load-start")
    await page.wait_for_selector("#l-speaking:text-is('0')")


async def compare_alone(page: Any) -> None:
    await page.wait_for_selector("#status:has-text('Ready')")
    await page.fill("#text", "Short one.")
    await page.click("#tab-compare")
    await page.click("label[for=beside-0]")
    await page.click("#compare-start")


async def test_two_models_are_compared_one_after_the_other(behaviour: Behaviour) -> None:
    behaviour.models = ("tone", "tone@policy_c")
    async with serving(behaviour) as url, browsing(url) as page:
        await compare_alone(page)
        await page.wait_for_selector("#compare-status:has-text('Both are finished')")
        assert [await run.get_attribute("data-model") for run in await page.query_selector_all(".run")] == [
            "tone@policy_c",
            "tone",
        ]
        assert behaviour.connections[-2:] == ["tone@policy_c", "tone"]


async def test_a_refused_request_of_a_comparison_is_retried(behaviour: Behaviour) -> None:
    behaviour.models = ("tone", "tone@policy_c")
    behaviour.error = {"code": "overloaded", "message": "full", "retryable": True, "retry_after_ms": 700}
    async with serving(behaviour) as url, browsing(url) as page:
        await compare_alone(page)
        await page.wait_for_selector("#compare-status:has-text('refused')")
        behaviour.error = None
        await page.wait_for_selector("#compare-status:has-text('Both are finished')")
        assert behaviour.connections[-3:] == ["tone@policy_c", "tone@policy_c", "tone"]
        assert await page.locator(".run").count() == 2
        assert await page.locator(".run .verdict[data-state=good]").count() == 2


async def test_an_uploaded_recording_is_a_new_voice(behaviour: Behaviour) -> None:
    behaviour.uploads = []
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.click("#tab-export")
        await page.fill("#clone-name", "anna")
        await page.fill("#clone-consent", "Anna agrees")
        recording = {"name": "anna.wav", "mimeType": "audio/wav", "buffer": voice_like()}
        await page.set_input_files("#clone-audio", recording)
        await page.click("#clone-form button")
        await page.wait_for_selector("#clone-note:has-text('is now available as a voice')")
        assert behaviour.uploads == [{"name": "anna", "consent": "Anna agrees"}]
        assert await page.input_value("#voice") == "anna"


async def test_the_upload_is_hidden_for_a_model_that_cannot_clone(page: Any) -> None:
    await page.click("#tab-export")
    assert await page.is_visible("#save-wav")
    assert not await page.is_visible("#clone")


async def test_a_server_with_one_model_shows_no_model_list_and_no_comparison(page: Any, behaviour: Behaviour) -> None:
    await page.click("#tab-compare")
    assert await page.is_visible("#compare-none")
    assert not await page.is_visible("#compare-start")
    assert not await page.is_visible("#model")
    await page.fill("#text", "Short.")
    await page.click("#speak")
    await until(page, "s.outcome === 'spoken'")
    assert "model" not in behaviour.messages("session.config")[-1]


async def test_the_selected_model_has_its_own_voices_and_its_own_connection(behaviour: Behaviour) -> None:
    behaviour.models = ("tone", "other")
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", "Short.")
        for model, voice in (("tone", "af_heart"), ("other", "am_adam"), ("tone", "am_adam")):
            await page.select_option("#model", model)
            await page.click("#speak")
            await until(page, "s.outcome === 'spoken'")
            config = behaviour.messages("session.config")[-1]
            assert (config["model"], config["voice"]) == (model, voice)
        assert behaviour.connections == ["tone", "other", "tone"]
        await page.select_option("#model", "other")
        options = await page.eval_on_selector_all("#voice option", "all => all.map(each => each.value)")
        assert options == ["am_adam", "solo"]


async def test_an_older_server_without_a_list_of_models_works(behaviour: Behaviour) -> None:
    behaviour.lists_models = False
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
        assert behaviour.messages("session.config")[-1]["voice"] == "af_heart"
        assert not await page.is_visible("#model")


# -- Accessibility and layout ------------------------------------------------------------------------------------------


async def test_every_control_is_usable_by_keyboard(page: Any, behaviour: Behaviour) -> None:
    await page.reload()
    await page.wait_for_selector("#status:has-text('Ready')")
    reached = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id"))
        if reached[-1] == "panel-latency":
            break
    for control in ("text", "mode-paste", "voice", "stop", "speak", "transcript", "tab-latency", "panel-latency"):
        assert control in reached
    await page.focus("#tab-latency")
    for tab in TABS[1:]:
        await page.keyboard.press("ArrowRight")
        assert await page.is_visible(f"#panel-{tab}")
        assert await page.evaluate("document.activeElement.id") == f"tab-{tab}"
    await page.focus("#speak")
    await page.keyboard.press("Enter")
    await until(page, "s.rms > 0.05")
    await page.keyboard.press("Space")
    await until(page, "s.outcome === 'stopped'")


@pytest.mark.skipif(AXE is None, reason="AXE_JS does not name axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_reports_no_violation(behaviour: Behaviour, scheme: str) -> None:
    assert AXE is not None
    script = await asyncio.to_thread(Path(AXE).read_text)
    audit = "axe.run().then(({ violations }) => violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html)]))"
    async with serving(behaviour) as url, browsing(url, color_scheme=scheme) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.evaluate(script)
        await page.click("#more summary")
        assert await page.evaluate(audit) == []
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'", 30)
        for tab in TABS:
            await page.focus(f"#tab-{tab}")
            if not await page.is_visible(f"#panel-{tab}"):
                await page.keyboard.press("Enter")
            assert await page.evaluate(audit) == [], tab


@pytest.mark.parametrize("width", [320, 390, 768, 1440])
async def test_no_panel_overflows_horizontally(behaviour: Behaviour, width: int) -> None:
    async with serving(behaviour) as url, browsing(url, viewport={"width": width, "height": 844}) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.click("#more summary")
        for tab in TABS:
            if not await page.is_visible(f"#panel-{tab}"):
                await page.click(f"#tab-{tab}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, tab
