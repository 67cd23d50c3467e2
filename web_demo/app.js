// Wires the page: buttons and keys to the speaker, the speaker's state to what is shown.  Nothing else lives here.

import { BufferMeter } from "./buffer-meter.js";
import { SpeechClient } from "./client.js";
import { Player } from "./player.js";
import { SentenceList } from "./sentence-list.js";
import { Speaker } from "./speaker.js";
import { groupVoices, measuresInWords, ms, seconds, unreachableInWords } from "./words.js";

const STATUS = {
  connecting: "Connecting…",
  waiting: "Waiting for the first sound…",
  speaking: "Speaking",
  rebuffering: "A gap: waiting for more sound…",
  spoken: "All spoken",
  stopped: "Stopped",
  failed: "Not spoken to the end",
  silent: "Nothing was spoken",
};
const MEASURES_EVERY_MS = 200; // numbers that change faster cannot be read
const RETRY_MS = [1000, 2000, 4000, 8000];

const element = (id) => document.getElementById(id);
const here = (path) => new URL(path, document.baseURI); // relative, so that the page works behind a path prefix

const socketUrl = here("v1/audio/speech/stream");
socketUrl.protocol = socketUrl.protocol === "https:" ? "wss:" : "ws:";

const player = new Player();
const speaker = new Speaker({
  client: new SpeechClient({ url: socketUrl.href }),
  player,
  probe: () => fetch(here("readyz"), { cache: "no-store" }).then(({ status }) => status, () => null),
});
const meter = new BufferMeter(element("meter"));
const sentences = new SentenceList(element("sentences"));
let measuredAtMs = -Infinity;

// Read-only, for tests and the curious.
Object.defineProperty(window, "rtts", { get: () => Object.freeze(speaker.snapshot) });

function speak(event) {
  const text = element("text").value.trim();
  if (text === "") {
    showProblem("There is nothing to say yet. Please type a sentence first.");
    element("text").focus();
    return;
  }
  sentences.clear();
  meter.clear();
  speaker.speak({ text, voice: element("voice").value, askedAtMs: event.timeStamp });
  showProblem(null);
  showMeasures();
}

// -- Showing ------------------------------------------------------------------------------------------------------

const SHOW = {
  state: showState,
  problem: () => showProblem(speaker.snapshot.problem ?? speaker.snapshot.warning),
  server: showServer,
  sentence: showSentences,
  packet: () => meter.packet(),
  stats: showStats,
};
speaker.onchange = (what) => SHOW[what]();

function showState() {
  const { state, outcome, played_ms } = speaker.snapshot;
  const ended = outcome === "failed" && played_ms === 0 ? "silent" : outcome;
  const shown = state === "idle" ? (ended ?? "idle") : state;
  element("status").textContent = STATUS[shown];
  element("status").dataset.state = shown;
  element("stop").setAttribute("aria-disabled", String(!speaker.isBusy));
  meter.running = speaker.isBusy;
  if (!speaker.isBusy) showMeasures();
}

function showProblem(problem) {
  element("problem").textContent = problem ?? "";
  element("problem").hidden = problem === null;
}

function showServer() {
  const { model, sample_rate } = speaker.server;
  element("server").textContent = [model, sample_rate && `${sample_rate / 1000} kHz`].filter(Boolean).join(" · ");
}

function showSentences() {
  element("said-hint").hidden = true;
  element("sentences").hidden = false;
  sentences.update(speaker.timeline, speaker.playedSamples);
}

function showStats() {
  meter.depth(speaker.snapshot);
  sentences.update(speaker.timeline, speaker.playedSamples);
  if (performance.now() - measuredAtMs > MEASURES_EVERY_MS || !speaker.isBusy) showMeasures();
}

function showMeasures() {
  measuredAtMs = performance.now();
  const now = speaker.snapshot;
  element("measures").textContent = measuresInWords(now);
  element("m-packet").textContent = ms(now.first_packet_ms);
  element("m-audible").textContent = ms(now.first_audible_ms);
  element("m-played").textContent = seconds(now.played_ms);
  element("m-gaps").textContent = `${now.underruns}, ${ms(now.worst_gap_ms)}`;
  element("m-deficit").textContent = now.report === null ? "–" : ms(now.report.max_underrun_s * 1000);
  element("m-stop").textContent = ms(now.silent_after_ms);
}

// -- Voices -------------------------------------------------------------------------------------------------------

async function loadVoices(attempt = 0) {
  const response = await fetch(here("v1/audio/voices")).catch(() => null);
  if (response?.ok) {
    showVoices(await response.json());
    return;
  }
  if (!speaker.isBusy) element("status").textContent = unreachableInWords(response?.status ?? null);
  setTimeout(() => loadVoices(attempt + 1), RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]);
}

function showVoices({ voices, default: preferred }) {
  const groups = groupVoices(voices).map(({ label, voices: members }) => {
    const group = document.createElement("optgroup");
    group.label = label;
    group.append(...members.map(({ value, label: name }) => new Option(name, value, false, value === preferred)));
    return group;
  });
  if (groups.length > 0) element("voice").replaceChildren(...groups);
  element("voice").disabled = groups.length === 0;
  if (element("status").dataset.state === "idle") element("status").textContent = "Ready";
}

// -- Hands --------------------------------------------------------------------------------------------------------

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  speak(event);
});
element("stop").addEventListener("click", () => speaker.stop());
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    speak(event);
  } else if (event.key === "Escape") {
    speaker.stop();
  }
});
// Opening the audio device takes a moment: begin when a hand first moves, ahead of the click on Speak.
for (const gesture of ["pointerdown", "keydown"]) {
  document.addEventListener(gesture, () => player.prepare().catch(() => {}), { once: true });
}

loadVoices();
