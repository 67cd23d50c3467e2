// Puts the page together: who knows whom, and what is shown when the speaker tells of a change.

import { Api } from "./protocol/http-api.js";
import { BargeIn } from "./panels/barge-in-panel.js";
import { SpeechClient } from "./protocol/client.js";
import { ClonePanel } from "./panels/clone-panel.js";
import { ComparePanel } from "./panels/compare-panel.js";
import { Composer } from "./panels/composer.js";
import { Continuity } from "./panels/continuity-panel.js";
import { element, note } from "./panels/dom.js";
import { Inspector } from "./panels/message-panel.js";
import { KeepPanel } from "./panels/export-panel.js";
import { KeyDialog } from "./panels/key-dialog.js";
import { LoadPanel } from "./panels/load-panel.js";
import { BadNetwork } from "./simulation/network-impairment.js";
import { NetworkPanel } from "./panels/network-panel.js";
import { Player } from "./audio/player.js";
import { Speaker } from "./utterance/controller.js";
import { Stage } from "./panels/transcript.js";
import { Tabs } from "./panels/tabs.js";
import { TextsPanel } from "./panels/texts-panel.js";
import { TORTURE_TEXTS } from "./simulation/difficult-texts.js";
import { Voices } from "./panels/speech-settings.js";
import { showWaterfall } from "./panels/latency-panel.js";
import { WorkerSocket } from "./protocol/worker-socket.js";
import { linkInWords, measuresInWords, timingsInWords, unreachableInWords } from "./panels/display-text.js";

const STATUS = {
  connecting: "Connecting…",
  waiting: "Waiting for the first sound…",
  listening: "Waiting for more text…",
  speaking: "Speaking",
  rebuffering: "A gap: waiting for more sound…",
  spoken: "All spoken",
  stopped: "Stopped",
  failed: "Not spoken to the end",
  silent: "Nothing was spoken",
};
const FIGURES_EVERY_MS = 200; // numbers that change faster cannot be read
const RETRY_MS = [1000, 2000, 4000, 8000];
const OTHERS_SAY = TORTURE_TEXTS.filter(({ name }) => ["Numbers", "One long sentence", "Tongue twister"].includes(name));

const api = new Api({ base: document.baseURI, storage: sessionStorage });
const player = new Player();
const network = new BadNetwork({ seed: 1 });
const speakers = new Set();

function makeSpeaker(scheduler, line = null) {
  const openSocket = (...to) => new WorkerSocket(...to);
  const client = new SpeechClient({ url: api.socketUrl(scheduler), token: api.token, openSocket, network: line });
  const made = new Speaker({ client, player, probe: () => api.probe() });
  speakers.add(made);
  const retire = () => {
    client.close();
    speakers.delete(made);
  };
  return { speaker: made, retire };
}

function load(scheduler) {
  const config = { voice: element("voice").value || null };
  return { url: api.socketUrl(scheduler), token: api.token, texts: OTHERS_SAY.map(({ text }) => text), config };
}

player.onstats = (stats) => {
  for (const each of speakers) each.hear(stats);
};

const { speaker } = makeSpeaker(null, network);
const voices = new Voices();
const composer = new Composer({ speaker, config: () => voices.config });
const continuity = new Continuity(speaker);
const stage = new Stage(element("stage"));
const inspector = new Inspector();
const tabs = new Tabs(element("tabs"));
const networkPanel = new NetworkPanel({ network, speaker });
new LoadPanel(() => load(null));
const bargeIn = new BargeIn({
  speaker,
  stop(atMs) {
    composer.stop(atMs);
  },
});
const comparePanel = new ComparePanel({
  makeSpeaker,
  load,
  compose: () => ({ text: composer.text, config: voices.config }),
  onstart: () => composer.stop(performance.now()),
});
const textsPanel = new TextsPanel((text, atMs) => {
  composer.text = text;
  composer.speak(atMs);
});
new KeepPanel({
  speaker,
  player,
  present: () => ({ config: voices.config, text: composer.text, url: api.socketUrl(), keyed: api.hasKey }),
});
new ClonePanel({
  api,
  async onvoice(name) {
    await loadServer();
    voices.choose(name);
  },
});
const keyDialog = new KeyDialog({ api, onkey: () => loadServer() });
api.onlocked = () => keyDialog.open();
speaker.client.on("message", (message) => inspector.add(message));
speaker.client.on("error", ({ code }) => {
  if (code === "unauthorized") keyDialog.open();
});

// Read-only, for tests and the curious.
Object.defineProperty(window, "rtts", { get: () => Object.freeze(speaker.snapshot) });

// -- Showing -------

const SHOW = {
  state: showState,
  problem: () => note(element("problem"), speaker.snapshot.problem ?? speaker.snapshot.warning),
  server: showServer,
  link: showLink,
  text: showStage,
  sentence: showStage,
  packet: () => continuity.packet(),
  stats: showStats,
  report: showReport,
  cut: showCut,
};
speaker.onchange = (what) => SHOW[what]();
let shownAtMs = -Infinity;
const FOLLOW_MS = 30;
let following = 0; // the next look at which words light up

composer.onspeak = () => {
  comparePanel.stop();
  continuity.clear();
  note(element("said-note"), null);
  note(element("cut-note"), null);
  showStage();
  // On a phone the text that lights up lies below the fold.
  if (matchMedia("(max-width: 60rem)").matches) element("stage").parentElement.scrollIntoView({ block: "nearest" });
};

function showState() {
  const { outcome, played_ms, awaits_text } = speaker.snapshot;
  const ended = outcome === "failed" && played_ms === 0 ? "silent" : outcome;
  const { state } = speaker;
  const shown = state === "idle" ? (ended ?? "idle") : state === "waiting" && played_ms > 0 && awaits_text ? "listening" : state;
  element("status").textContent = STATUS[shown];
  element("status").dataset.state = shown;
  element("stop").setAttribute("aria-disabled", String(!speaker.isBusy));
  continuity.running = speaker.isBusy;
  if (speaker.isBusy) {
    clearTimeout(following);
    follow();
    return;
  }
  if (outcome === "stopped") showCut();
  else showStage();
  showFigures();
}

/** Words light up when they are heard, not only when stats come. */
function follow() {
  if (!speaker.isBusy) return;
  showStage();
  following = setTimeout(follow, FOLLOW_MS);
}

function showStage() {
  const { run } = speaker;
  if (run === null) return;
  stage.update(run, speaker.playedSamples);
  note(element("said-note"), timingsInWords(run.timeline.sentences.map(({ timings }) => timings)));
}

function showCut() {
  const { run } = speaker;
  if (run.outcome !== "stopped") return;
  stage.update(run, speaker.playedSamples);
  stage.cut(run.heard);
  bargeIn.show();
}

function showServer() {
  const { model, sample_rate } = speaker.server;
  element("server").textContent = [model, sample_rate && `${sample_rate / 1000} kHz`].filter(Boolean).join(" · ");
}

function showLink() {
  const { state } = speaker.client;
  element("link").textContent = linkInWords(state);
  element("link").dataset.state = state;
}

function showStats() {
  continuity.stats();
  if (performance.now() - shownAtMs > FIGURES_EVERY_MS || !speaker.isBusy) showFigures();
}

function showReport() {
  textsPanel.show(speaker.run);
  showFigures();
}

function showFigures() {
  shownAtMs = performance.now();
  element("measures").textContent = measuresInWords(speaker.snapshot);
  continuity.showFigures();
  networkPanel.show();
  if (speaker.run === null) return;
  showWaterfall(speaker.run.latency, speaker.run.outputLatencyMs);
  bargeIn.show();
  textsPanel.show(speaker.run);
}

// -- The server -------

let isKnown = false; // the server has let us in

async function loadServer(attempt = 0) {
  const response = await api.request("v1/audio/voices");
  if (response?.status === 401) {
    element("status").textContent = "This server asks for a key";
    return; // the key, once entered, begins anew
  }
  if (!response?.ok) {
    if (!speaker.isBusy) element("status").textContent = unreachableInWords(response?.status ?? null);
    setTimeout(() => loadServer(attempt + 1), RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]);
    return;
  }
  const offered = await api.request("v1/demo").then((answer) => (answer?.ok ? answer.json() : {}));
  voices.show(await response.json(), offered.languages);
  isKnown = true;
  comparePanel.offer(offered.schedulers ?? []);
  element("clone").hidden = offered.clones !== true;
  if (element("status").dataset.state === "idle") element("status").textContent = "Ready";
}

// -- Hands -------

document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  composer.speak(event.timeStamp);
});
// The audio device and the connection take a moment: begin when a hand first moves, ahead of the click on Speak.
for (const gesture of ["pointerdown", "keydown"]) {
  document.addEventListener(
    gesture,
    () => {
      player.prepare().catch(() => {}); // Speak tries again, and says so
      if (isKnown && speaker.client.state === "closed") speaker.client.connect(voices.config);
    },
    { once: true },
  );
}

// What would be spoken stands there in grey until it is.
element("text").addEventListener("input", () => {
  if (!speaker.isBusy) stage.preview(composer.text);
});
stage.preview(composer.text);
if (matchMedia("(min-width: 60rem)").matches) tabs.open("tab-latency");
loadServer();
