"""Does a real browser, given the page, make sound, count honestly, and fall silent when told to?"""

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
"""The path of axe.min.js, of npm's axe-core."""
TABS = ("latency", "network", "barge", "load", "compare", "texts", "inspector", "keep")


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


def spoken_types(behaviour: Behaviour) -> list[object]:
    """What was asked for, without what a player tells from time to time."""
    return [
        message["type"]
        for message in behaviour.received
        if message["type"] not in ("playback.report", "session.config")
    ]


# -- Speaking ----------------------------------------------------------------------------------------------------------


async def test_speak_is_heard_to_the_end_without_a_gap(page: Any, behaviour: Behaviour) -> None:
    await page.click("#speak")
    loud = await until(page, "s.rms > 0.05")
    assert loud["state"] == "speaking"
    assert loud["first_packet_ms"] < loud["first_audible_ms"] < 3000
    end = await until(page, "s.outcome !== null && s.buffered_ms === 0")
    assert (end["outcome"], end["underruns"], end["problem"]) == ("spoken", 0, None)
    assert end["played_ms"] == pytest.approx(end["report"]["audio_s"] * 1000, abs=0.001)
    assert spoken_types(behaviour) == ["input.text", "input.done"]
    assert behaviour.told("session.config")[-1]["voice"] == "af_heart"
    assert await page.locator("#stage .sentence[data-state=heard]").count() == 3
    assert (await page.inner_text("#verdict")).startswith("0 gaps")


async def test_no_sound_is_claimed_from_before_its_packet(page: Any, behaviour: Behaviour) -> None:
    """An audio device that is just starting reports times that are too early; the page must not repeat them."""
    behaviour.first_packet_s, behaviour.speed = 0.0, 30
    await page.click("#speak")
    heard = await until(page, "s.played_ms > 700")
    assert heard["first_packet_ms"] < heard["first_audible_ms"]


async def test_the_word_that_is_heard_is_lit_not_the_one_that_arrives(page: Any, behaviour: Behaviour) -> None:
    behaviour.speed, behaviour.seconds_per_character = 100, 0.15  # all of it is here before the first sentence is heard
    await page.click("#speak")
    await until(page, "s.played_ms > 200 && s.buffered_ms > 5000 && s.server_report !== null")
    assert await page.locator("#stage .sentence").count() == 3
    assert await page.inner_text("#stage [aria-current=true]") == "One sentence to begin with."
    assert await page.inner_text("#stage .word[data-state=now]") in "One sentence to begin with."
    await until(page, "s.played_ms > 4200")
    assert await page.inner_text("#stage [aria-current=true]") == "Then a second one."
    assert not await page.is_visible("#said-note")


async def test_without_word_times_whole_sentences_light_up_and_a_note_says_so(page: Any, behaviour: Behaviour) -> None:
    behaviour.times_words, behaviour.seconds_per_character = False, 0.15
    await page.click("#speak")
    await until(page, "s.played_ms > 200")
    assert await page.inner_text("#stage .sentence[data-state=now]") == "One sentence to begin with."
    assert await page.locator("#stage .word").count() == 0
    assert "whole sentences light up" in await page.inner_text("#said-note")


async def test_text_that_is_typed_live_is_sent_in_tokens_and_its_waits_are_no_gaps(
    page: Any, behaviour: Behaviour
) -> None:
    behaviour.speed = 100
    await page.click("label[for=mode-live]")
    await slide(page, "#pace", 100)
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    pieces = [str(message["text"]) for message in behaviour.told("input.text")]
    assert "".join(pieces) == TEXT
    assert len(pieces) >= len(TEXT.split())
    assert end["underruns"] == 0
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)


async def test_a_second_utterance_reuses_the_open_socket(page: Any, behaviour: Behaviour) -> None:
    for _ in range(2):
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
    assert not behaviour.closed.is_set()
    assert len(behaviour.told("input.done")) == 2
    contexts = [message["context_id"] for message in behaviour.told("input.done")]
    assert contexts[0] != contexts[1]


async def test_voices_are_grouped_by_language_and_a_language_narrows_them(page: Any, behaviour: Behaviour) -> None:
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
    config = behaviour.told("session.config")[-1]
    assert (config["voice"], config["language"], config["speed"]) == ("bf_emma", "en-GB", 1.25)


async def test_an_empty_text_asks_for_words(page: Any, behaviour: Behaviour) -> None:
    await page.fill("#text", "   ")
    await page.click("#speak")
    assert "nothing to say" in await page.inner_text("#problem")
    assert spoken_types(behaviour) == []


# -- Stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["Space", "Escape"])
async def test_a_key_is_silence_within_50_ms_and_the_server_says_what_was_heard(
    page: Any, behaviour: Behaviour, key: str
) -> None:
    await page.click("#speak")
    await until(page, "s.played_ms > 600")
    await page.keyboard.press(key)
    stopped = await until(page, "s.silent_after_ms !== null && s.rms === 0 && s.cancelled_after_ms !== null")
    assert (stopped["state"], stopped["outcome"], stopped["buffered_ms"]) == ("idle", "stopped", 0)
    assert stopped["silent_after_ms"] < 50
    cancel = behaviour.told("input.cancel")[0]
    heard, unheard = await page.inner_text("#stage .heard"), await page.inner_text("#stage .unheard")
    assert heard + unheard == TEXT
    played_ms = float(str(cancel["playback_offset_ms"]))
    assert len(heard) == round(played_ms / 1000 / behaviour.seconds_per_character)
    assert played_ms == pytest.approx(stopped["played_ms"], abs=250)  # what was in the sound card is not yet heard
    assert not behaviour.closed.is_set()


async def test_the_space_bar_writes_a_space_in_a_text_field(page: Any) -> None:
    await page.click("#speak")
    await until(page, "s.rms > 0.05")
    await page.focus("#text")
    await page.keyboard.press("End")
    await page.keyboard.press("Space")
    assert (await page.input_value("#text")).endswith(" ")
    assert (await page.evaluate("window.rtts"))["state"] == "speaking"


async def test_after_a_stop_the_next_press_speaks_again(page: Any) -> None:
    for _ in range(3):
        await page.focus("#text")
        await page.keyboard.press("Control+Enter")
        await until(page, "s.rms > 0.05")
        await page.click("#stop")
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    assert end["underruns"] == 0


async def test_a_voice_at_the_microphone_stops_it(behaviour: Behaviour, tmp_path: Path) -> None:
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
    """A wav file of what no noise suppression takes for noise: syllables of a buzz, with pauses."""
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


async def test_a_stall_is_heard_and_counted_once(page: Any, behaviour: Behaviour) -> None:
    behaviour.stall_after_s, behaviour.stall_s = 0.4, 1.2
    await page.click("#speak")
    gap = await until(page, "s.gap_open_ms > 0")
    assert gap["underruns"] == 0  # not yet: it is a gap only once audio ends it
    end = await until(page, "s.outcome === 'spoken' && s.server_report !== null")
    assert end["underruns"] == end["report"]["underrun_count"] == end["server_report"]["underrun_count"] == 1
    assert 200 < end["worst_gap_ms"] < 1300
    assert end["cushion_ms"] > 60  # grown, so that the next one is not heard
    assert (await page.inner_text("#verdict")).startswith("1 gap · worst")
    assert await page.get_attribute("#verdict", "data-state") == "bad"


async def test_a_bad_network_is_late_here_and_not_at_the_server(page: Any, behaviour: Behaviour) -> None:
    behaviour.speed = 1.2
    await page.click("#tab-network")
    await slide(page, "#jitter", 400)
    await slide(page, "#loss", 20)
    await page.click("#panel-network [data-speak]")
    end = await until(page, "s.outcome === 'spoken' && s.server_report !== null", 30)
    assert end["report"]["max_underrun_s"] * 1000 > end["server_report"]["max_underrun_ms"] + 50
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)  # late, but all of it


# -- What goes wrong ---------------------------------------------------------------------------------------------------


async def test_a_lost_connection_is_said_and_the_next_press_reconnects(page: Any, behaviour: Behaviour) -> None:
    behaviour.drop_after_s = 0.3
    await page.click("#speak")
    end = await until(page, "s.outcome !== null")
    assert end["outcome"] == "failed"
    assert (
        await page.inner_text("#problem") == end["problem"] == "Something went wrong on the server. Please try again."
    )
    behaviour.drop_after_s = None
    await page.click("#speak")
    await until(page, "s.outcome === 'spoken'")
    assert not await page.is_visible("#problem")
    assert await page.inner_text("#link") == "Connected"


async def test_a_server_that_is_not_ready_is_said_in_plain_words(page: Any, behaviour: Behaviour) -> None:
    behaviour.refuse = True
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert "not ready yet" in end["problem"]
    assert await page.is_visible("#problem")


async def test_a_refused_request_is_said_in_plain_words(page: Any, behaviour: Behaviour) -> None:
    behaviour.error = {"code": "overloaded", "message": "full", "retry_after_ms": 2400}
    await page.click("#speak")
    end = await until(page, "s.outcome === 'failed'")
    assert "try again in 3 s" in end["problem"]
    assert end["played_ms"] == 0


async def test_a_server_that_asks_for_a_key_gets_it_as_tokens(behaviour: Behaviour) -> None:
    behaviour.key = "open sesame"
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#key-dialog[open]")
        await page.fill("#key", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#key-problem:not([hidden])")
        await page.fill("#key", "open sesame")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.fill("#text", "Short.")
        await page.click("#speak")
        await until(page, "s.outcome === 'spoken'")
        assert behaviour.tokens == []  # each was used, once
        assert await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [0, 0, ""]


# -- For engineers -----------------------------------------------------------------------------------------------------


async def test_the_report_and_the_sound_can_be_saved(page: Any, tmp_path: Path) -> None:
    await page.click("#speak")
    end = await until(page, "s.outcome === 'spoken'")
    await page.click("#tab-keep")
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
    await (await download.value).save_as(tmp_path / "sound.wav")
    with wave.open(str(tmp_path / "sound.wav")) as file:
        assert file.getnframes() / file.getframerate() * 1000 == pytest.approx(end["played_ms"], abs=0.1)


async def test_the_inspector_shows_every_message_and_the_waterfall_every_stage(page: Any) -> None:
    await page.click("#speak")
    await until(page, "s.outcome === 'spoken'")
    stages = await page.locator("#waterfall .name").all_inner_texts()
    assert stages[0] == "connect"
    assert stages[-2:] == ["first packet", "first audible sample"]
    await page.click("#tab-inspector")
    types = await page.locator("#messages b").all_inner_texts()
    for told in ("session.config", "input.text", "input.done", "audio.start", "audio", "audio.done", "session.done"):
        assert told in types
    await page.locator("#messages summary").last.click()
    last = json.loads(await page.locator("#messages pre").inner_text())
    assert last["type"] == types[-1]


async def test_awkward_texts_are_one_click_away_and_shown_as_spoken(page: Any, behaviour: Behaviour) -> None:
    await page.click("#tab-texts")
    await page.click("#texts button:has-text('Tiny sentences')")
    await until(page, "s.played_ms > 0")
    text = behaviour.told("input.text")[0]["text"]
    assert text == await page.input_value("#text")
    await until(page, "s.outcome === 'spoken'", 30)
    rows = await page.locator("#spoken-rows tr").all_inner_texts()
    assert rows[0].split("\t")[1:3] == ["No.", "No."]


async def test_other_streams_speak_beside_ours_and_leave(page: Any, behaviour: Behaviour) -> None:
    await page.click("#tab-load")
    await page.click("label[for=load-8]")
    await page.click("#load-start")
    await page.wait_for_selector("#l-speaking:text-is('8')")
    await page.click("#panel-load [data-speak]")
    end = await until(page, "s.outcome === 'spoken'", 30)
    assert end["played_ms"] == pytest.approx(end["server_report"]["audio_ms"], abs=0.001)
    assert len(behaviour.asked_for) == 9
    await page.click("#load-start")
    await page.wait_for_selector("#l-speaking:text-is('0')")


async def compare_alone(page: Any) -> None:
    await page.wait_for_selector("#status:has-text('Ready')")
    await page.fill("#text", "Short one.")
    await page.click("#tab-compare")
    await page.click("label[for=beside-0]")
    await page.click("#compare-start")


async def test_two_schedulers_are_heard_one_after_the_other(behaviour: Behaviour) -> None:
    behaviour.schedulers = ("deadline", "policy_c")
    async with serving(behaviour) as url, browsing(url) as page:
        await compare_alone(page)
        await page.wait_for_selector("#compare-status:has-text('That was both')")
        assert [await run.get_attribute("data-scheduler") for run in await page.query_selector_all(".run")] == [
            "policy_c",
            "deadline",
        ]
        assert behaviour.asked_for[-2:] == ["policy_c", ""]


async def test_whoever_is_told_to_wait_in_a_comparison_is_heard_when_there_is_room(behaviour: Behaviour) -> None:
    behaviour.schedulers = ("deadline", "policy_c")
    behaviour.error = {"code": "overloaded", "message": "full", "retryable": True, "retry_after_ms": 700}
    async with serving(behaviour) as url, browsing(url) as page:
        await compare_alone(page)
        await page.wait_for_selector("#compare-status:has-text('told to wait')")
        behaviour.error = None
        await page.wait_for_selector("#compare-status:has-text('That was both')")
        assert behaviour.asked_for[-3:] == ["policy_c", "policy_c", ""]
        assert await page.locator(".run").count() == 2
        assert await page.locator(".run .verdict[data-state=good]").count() == 2


async def test_a_recording_becomes_a_voice_where_the_model_can_clone(behaviour: Behaviour) -> None:
    behaviour.uploads = []
    async with serving(behaviour) as url, browsing(url) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.click("#tab-keep")
        await page.fill("#clone-name", "anna")
        await page.fill("#clone-consent", "Anna, who agrees")
        recording = {"name": "anna.wav", "mimeType": "audio/wav", "buffer": voice_like()}
        await page.set_input_files("#clone-audio", recording)
        await page.click("#clone-form button")
        await page.wait_for_selector("#clone-note:has-text('is now one of the voices')")
        assert behaviour.uploads == [{"name": "anna", "consent": "Anna, who agrees"}]
        assert await page.input_value("#voice") == "anna"


async def test_a_model_that_cannot_clone_is_not_offered_a_voice(page: Any) -> None:
    await page.click("#tab-keep")
    assert await page.is_visible("#save-wav")
    assert not await page.is_visible("#clone")


async def test_a_server_with_one_scheduler_says_so(page: Any) -> None:
    await page.click("#tab-compare")
    assert await page.is_visible("#compare-none")
    assert not await page.is_visible("#compare-start")


# -- For everybody -----------------------------------------------------------------------------------------------------


async def test_everything_can_be_done_by_keyboard_alone(page: Any, behaviour: Behaviour) -> None:
    await page.reload()
    await page.wait_for_selector("#status:has-text('Ready')")
    reached = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id"))
        if reached[-1] == "panel-latency":
            break
    for control in ("text", "mode-paste", "voice", "stop", "speak", "stage", "tab-latency", "panel-latency"):
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


@pytest.mark.skipif(AXE is None, reason="AXE_JS does not say where axe.min.js is")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_fault(behaviour: Behaviour, scheme: str) -> None:
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
async def test_nothing_is_cut_off_at_the_side(behaviour: Behaviour, width: int) -> None:
    async with serving(behaviour) as url, browsing(url, viewport={"width": width, "height": 844}) as page:
        await page.wait_for_selector("#status:has-text('Ready')")
        await page.click("#more summary")
        for tab in TABS:
            if not await page.is_visible(f"#panel-{tab}"):
                await page.click(f"#tab-{tab}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, tab
