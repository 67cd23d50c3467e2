// Entry point: creates the parts of the page, connects them, and updates the panels after each change.

import { Player } from "./audio/player.js";
import { BargeInPanel } from "./panels/barge-in-panel.js";
import { ChatPanel } from "./panels/chat-panel.js";
import { ClonePanel } from "./panels/clone-panel.js";
import { ComparePanel } from "./panels/compare-panel.js";
import { Composer } from "./panels/composer.js";
import { ContinuityPanel } from "./panels/continuity-panel.js";
import { connectionText, playbackText, timingsText } from "./panels/display-text.js";
import { element, note } from "./panels/dom.js";
import { ExportPanel } from "./panels/export-panel.js";
import { KeyDialog } from "./panels/key-dialog.js";
import { showLatency } from "./panels/latency-panel.js";
import { LoadPanel } from "./panels/load-panel.js";
import { MessagePanel } from "./panels/message-panel.js";
import { NetworkPanel } from "./panels/network-panel.js";
import { SpeechSettings } from "./panels/speech-settings.js";
import { Tabs } from "./panels/tabs.js";
import { TextsPanel } from "./panels/texts-panel.js";
import { Transcript } from "./panels/transcript.js";
import { SpeechClient } from "./protocol/client.js";
import { HttpApi } from "./protocol/http-api.js";
import { modelsOf } from "./protocol/models.js";
import { WorkerSocket } from "./protocol/worker-socket.js";
import { DIFFICULT_TEXTS } from "./simulation/difficult-texts.js";
import { ImpairedNetwork } from "./simulation/network-impairment.js";
import { UtteranceController } from "./utterance/controller.js";
import { unreachableMessage } from "./utterance/error-messages.js";

const STATUS = {
  connecting: "Connecting…",
  waiting: "Waiting for the first audio…",
  listening: "Waiting for more text…",
  speaking: "Speaking",
  rebuffering: "Gap: waiting for late audio…",
  spoken: "Finished",
  stopped: "Stopped",
  failed: "Failed before the end",
  silent: "Nothing was spoken",
};
const FIGURES_EVERY_MS = 200; // figures that change more often are unreadable
const RETRY_MS = [1000, 2000, 4000, 8000];
const LOAD_TEXTS = DIFFICULT_TEXTS.filter(({ name }) =>
  ["Numbers", "One long sentence", "Tongue twister"].includes(name),
).map(({ text }) => text);

const api = new HttpApi({ base: document.baseURI, storage: sessionStorage });
const player = new Player();
const network = new ImpairedNetwork({ seed: 1 });
const controllers = new Set();

function makeController(receivePath = null) {
  const openSocket = (...args) => new WorkerSocket(...args);
  const client = new SpeechClient({ url: api.socketUrl, token: api.token, openSocket, network: receivePath });
  const made = new UtteranceController({ client, player, probe: () => api.probe() });
  controllers.add(made);
  const close = () => {
    client.close();
    controllers.delete(made);
  };
  return { controller: made, close };
}

/** BackgroundLoad's options, with the model and voice of a session.config. */
function loadOptions({ model, voice }) {
  return { url: api.socketUrl, token: api.token, texts: LOAD_TEXTS, config: { model, voice } };
}

player.onstats = (stats) => {
  for (const each of controllers) each.onPlayerStats(stats);
};

const { controller } = makeController(network);
const settings = new SpeechSettings();
const composer = new Composer({ controller, settings });
const continuityPanel = new ContinuityPanel(controller);
const transcript = new Transcript(element("transcript"));
const messagePanel = new MessagePanel();
const tabs = new Tabs(element("tabs"));
const networkPanel = new NetworkPanel({ network, controller });
new LoadPanel(() => loadOptions(settings.config));
const bargeInPanel = new BargeInPanel({ controller, stop: (atMs) => composer.stop(atMs) });
const comparePanel = new ComparePanel({
  settings,
  text: () => composer.text,
  makeController,
  loadOptions,
  onstart: () => composer.stop(performance.now()),
});
const textsPanel = new TextsPanel((text, atMs) => {
  composer.text = text;
  composer.speak(atMs);
});
new ExportPanel({
  controller,
  player,
  request: () => ({ config: settings.config, text: composer.text, url: api.socketUrl, keyed: api.hasKey }),
});
new ClonePanel({
  api,
  async onvoice(name) {
    await loadServer();
    settings.selectVoice(name);
  },
});
const chatPanel = new ChatPanel({ api, voice: (model) => (settings.model === model ? settings.config.voice : "") });
const keyDialog = new KeyDialog({ api, onkey: () => loadServer() });
api.onunauthorized = () => keyDialog.open();
controller.client.on("message", (message) => messagePanel.add(message));
controller.client.on("error", ({ code }) => {
  if (code === "unauthorized") keyDialog.open();
});

// Read-only state, for tests and the browser's console.
Object.defineProperty(window, "rtts", { get: () => Object.freeze(controller.snapshot) });

// -- Updates of the panels -------

const UPDATES = {
  state: showState,
  problem: () => note(element("problem"), controller.snapshot.problem ?? controller.snapshot.warning),
  server: showServer,
  link: showConnection,
  text: showTranscript,
  sentence: showTranscript,
  packet: () => continuityPanel.addPacket(),
  stats: showStats,
  report: showReport,
  cancelled: showStop,
};
controller.onchange = (kind) => UPDATES[kind]();
let shownAtMs = -Infinity;
const TRANSCRIPT_EVERY_MS = 30;
let transcriptTimer = 0;

composer.onspeak = () => {
  comparePanel.stop();
  continuityPanel.clear();
  note(element("timings-note"), null);
  note(element("stop-note"), null);
  showTranscript();
  // On a phone the transcript is below the fold.
  if (matchMedia("(max-width: 60rem)").matches) element("transcript").parentElement.scrollIntoView({ block: "nearest" });
};

function showState() {
  const { outcome, played_ms, awaits_text } = controller.snapshot;
  const ended = outcome === "failed" && played_ms === 0 ? "silent" : outcome;
  const { state } = controller;
  const shown = state === "idle" ? (ended ?? "idle") : state === "waiting" && played_ms > 0 && awaits_text ? "listening" : state;
  element("status").textContent = STATUS[shown];
  element("status").dataset.state = shown;
  element("stop").setAttribute("aria-disabled", String(!controller.isBusy));
  continuityPanel.running = controller.isBusy;
  if (controller.isBusy) {
    clearTimeout(transcriptTimer);
    updateTranscript();
    return;
  }
  if (outcome === "stopped") showStop();
  else showTranscript();
  showFigures();
}

/** Highlights words between two stats, which are 50 ms apart. */
function updateTranscript() {
  if (!controller.isBusy) return;
  showTranscript();
  transcriptTimer = setTimeout(updateTranscript, TRANSCRIPT_EVERY_MS);
}

function showTranscript() {
  const { utterance } = controller;
  if (utterance === null) return;
  transcript.update(utterance, controller.playedSamples);
  note(element("timings-note"), timingsText(utterance.timeline.sentences.map(({ timings }) => timings)));
}

function showStop() {
  const { utterance } = controller;
  if (utterance.outcome !== "stopped") return;
  transcript.update(utterance, controller.playedSamples);
  transcript.showSplit(utterance.textSplit);
  bargeInPanel.show();
}

function showServer() {
  const { model, sample_rate } = controller.server;
  element("server").textContent = [model, sample_rate && `${sample_rate / 1000} kHz`].filter(Boolean).join(" · ");
}

function showConnection() {
  const { state } = controller.client;
  element("connection").textContent = connectionText(state);
  element("connection").dataset.state = state;
}

function showStats() {
  continuityPanel.addStats();
  if (performance.now() - shownAtMs > FIGURES_EVERY_MS || !controller.isBusy) showFigures();
}

function showReport() {
  textsPanel.show(controller.utterance);
  showFigures();
}

function showFigures() {
  shownAtMs = performance.now();
  element("playback").textContent = playbackText(controller.snapshot);
  continuityPanel.showFigures();
  networkPanel.show();
  const { utterance } = controller;
  if (utterance === null) return;
  showLatency(utterance.latency, utterance.outputLatencyMs);
  bargeInPanel.show();
  textsPanel.show(utterance);
}

// -- The server's models and voices -------

let isLoaded = false;

async function loadServer(attempt = 0) {
  const response = await api.request("v1/audio/voices");
  if (response?.status === 401) {
    element("status").textContent = "This server requires an API key";
    return; // the key dialog calls this again
  }
  if (!response?.ok) {
    if (!controller.isBusy) element("status").textContent = unreachableMessage(response?.status ?? null);
    setTimeout(() => loadServer(attempt + 1), RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]);
    return;
  }
  const [models, demo, voices] = await Promise.all([api.json("v1/models"), api.json("v1/demo"), response.json()]);
  settings.show(modelsOf(models), voices, demo?.languages);
  comparePanel.showModels();
  chatPanel.show(models?.data ?? []);
  isLoaded = true;
  element("clone").hidden = demo?.clones !== true;
  if (element("status").dataset.state === "idle") element("status").textContent = "Ready";
}

// -- User input -------

document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  composer.speak(event.timeStamp);
});
// Opening the audio device and the connection takes time: begin at the first input, before the click on Speak.
for (const gesture of ["pointerdown", "keydown"]) {
  document.addEventListener(
    gesture,
    () => {
      player.prepare().catch(() => {}); // Speak tries again and shows the error
      if (isLoaded && controller.client.state === "closed") controller.client.connect(settings.config);
    },
    { once: true },
  );
}

element("text").addEventListener("input", () => {
  if (!controller.isBusy) transcript.preview(composer.text);
});
transcript.preview(composer.text);
if (matchMedia("(min-width: 60rem)").matches) tabs.open("tab-latency");
loadServer();
