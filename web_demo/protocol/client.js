// Client of the wire protocol (protocol.md): text in, typed events out.  No DOM, no audio device.
//
// Events: every server message under its own `type` ("audio.start", "session.done", …), and these:
//   "open" {}      "closed" {code, reason, opened}      "state" {state}
//   "audio" {bytes, start, arrived_at_s}: audio of the sentence that `start`, an `audio.start`, announced
//   "message" {direction, at_s, data}: every message, binary ones as {bytes: n}
//   "sent" {at_s, data}: when a WorkerSocket sent it
// Unknown types are ignored, as the protocol requires.

import { CodedError } from "../errors.js";

const PROTOCOL = "realtime-tts.v1";
const TOKEN_PROTOCOL = "realtime-tts.token.";
const OWN_EVENTS = new Set(["open", "closed", "state", "audio", "message", "sent"]);
const FINAL_CLOSE_CODES = new Set([1000, 1001, 1007, 1008, 1009]); // the server would refuse a reconnect too
const BACKOFF_S = [0.5, 1, 2, 4, 8, 8];
const STABLE_S = 10; // after a connection of this length the backoff restarts
const DEFAULTS = { response_format: "pcm", stream_audio: true };

export class SpeechClientError extends CodedError {}

/** `setTimeout` as the modules use it: returns a function that cancels the timer. */
export function afterMs(ms, callback) {
  const timer = setTimeout(callback, ms);
  return () => clearTimeout(timer);
}

export class SpeechClient {
  #url;
  #token;
  #openSocket;
  #network;
  #nowS;
  #schedule;
  #random;
  #listeners = new Map();
  #state = "closed";
  #socket = null;
  #attempt = 0; // of reconnecting
  #socketCount = 0; // so that a token for an abandoned attempt opens nothing
  #openedAtS = null;
  #retryAfterS = 0; // from the server's last error
  #cancelRetry = () => {};
  #reconnects = false; // between connect() and close()
  #waiting = []; // resolvers of connect()
  #config = { ...DEFAULTS };
  #outbox = []; // messages sent while the first connection opens
  #cancelling = new Map(); // context id -> number of cancels without their audio.cancelled
  #start = null; // the last audio.start: binary frames belong to it

  /**
   * `token` returns a new single-use token (or null) for each socket.  Everything received passes through `network`,
   * such as an ImpairedNetwork: it has `push(frame, bytes)`, `clear()` and a `deliver` to set.
   */
  constructor({
    url,
    token = null,
    openSocket = (to, protocols) => new WebSocket(to, protocols),
    network = null,
    nowS = () => performance.now() / 1000,
    schedule = afterMs,
    random = Math.random,
  }) {
    this.#url = url;
    this.#token = token;
    this.#openSocket = openSocket;
    this.#network = network;
    this.#nowS = nowS;
    this.#schedule = schedule;
    this.#random = random;
    if (network !== null) {
      network.deliver = (frame, wasDelayed) => this.#receive(wasDelayed ? { ...frame, at_s: undefined } : frame);
    }
  }

  on(type, listener) {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
    return this;
  }

  /** "closed", "connecting", "open" or "reconnecting". */
  get state() {
    return this.#state;
  }

  get isOpen() {
    return this.#state === "open" && this.#socket.readyState === 1;
  }

  /**
   * Open a connection if there is none, and send `config` as `session.config`; reconnects send it again.  A session
   * has one model, so another `model` opens another connection.  Resolves to whether the connection is open; never
   * rejects.
   */
  connect(config = {}) {
    const { model = this.#config.model } = config;
    if (this.isOpen && model !== this.#config.model) this.close();
    this.#config = { ...this.#config, ...config };
    this.#reconnects = true;
    if (this.isOpen) {
      this.#send({ type: "session.config", ...config });
      return Promise.resolve(true);
    }
    const opened = new Promise((resolve) => this.#waiting.push(resolve));
    if (this.#state !== "connecting") this.#begin();
    return opened;
  }

  /** Send text of any length, down to one character. */
  sendText(text, { contextId } = {}) {
    if (typeof text !== "string") throw new TypeError(`text must be a string, got ${typeof text}`);
    this.#mustBeReachable();
    this.#send({ type: "input.text", text, ...named(contextId) });
  }

  /** End the utterance. */
  done({ contextId } = {}) {
    this.#mustBeReachable();
    this.#send({ type: "input.done", ...named(contextId) });
  }

  /**
   * Barge-in.  The server answers `audio.cancelled` with the text that was played; late audio of the context is
   * dropped here.  `playbackOffsetMs` is the audio played since the context began or was last cancelled.
   */
  cancel({ contextId, playbackOffsetMs } = {}) {
    this.#mustBeReachable();
    this.#cancelling.set(contextId, (this.#cancelling.get(contextId) ?? 0) + 1);
    const offset = playbackOffsetMs === undefined ? {} : { playback_offset_ms: playbackOffsetMs };
    this.#send({ type: "input.cancel", ...named(contextId), ...offset });
  }

  /** Correct the server's estimate of the playback; does nothing without a connection. */
  reportPlayback({ playedMs, bufferedMs, underruns, contextId }) {
    if (!this.isOpen) return;
    const playback = { played_ms: playedMs, buffered_ms: bufferedMs, underruns }; // JSON omits undefined fields
    this.#send({ type: "playback.report", ...named(contextId), ...playback });
  }

  /** Close at once; no event of the old connection follows. */
  close() {
    this.#reconnects = false;
    this.#leave("closed by the client");
    this.#setState("closed");
    this.#answer(false);
  }

  #mustBeReachable() {
    if (this.#state === "connecting" || this.isOpen) return;
    throw new SpeechClientError("not_connected", `there is no connection (${this.#state}): call connect() first`);
  }

  // -- The connection -------

  #begin() {
    const again = this.#state === "reconnecting";
    this.#leave("opening another connection");
    this.#setState(again ? "reconnecting" : "connecting");
    const attempt = this.#socketCount;
    if (this.#token === null) {
      this.#open(null);
      return;
    }
    this.#token().then(
      (token) => {
        if (attempt === this.#socketCount) this.#open(token);
      },
      (error) => {
        if (attempt === this.#socketCount) this.#onNoToken(error);
      },
    );
  }

  #onNoToken({ code = "no_token", message, retryable = true, retryAfterS = null }) {
    this.#retryAfterS = retryAfterS ?? 0;
    const retry = retryAfterS === null ? {} : { retry_after_ms: 1000 * retryAfterS };
    // A failed attempt to reconnect is not reported: the next one follows.
    if (!(retryable && this.#state === "reconnecting")) {
      this.#emit("error", { type: "error", code, message, fatal: true, retryable, ...retry });
    }
    this.#onLost({ code: retryable ? 1006 : 1008, reason: "no token" });
  }

  /** Drop the socket and ignore its later events. */
  #leave(reason) {
    const socket = this.#socket;
    this.#socketCount += 1;
    this.#cancelRetry();
    this.#cancelRetry = () => {};
    this.#socket = null;
    this.#openedAtS = null;
    this.#outbox.length = 0;
    this.#cancelling.clear();
    this.#start = null;
    this.#network?.clear();
    socket?.close(1000, reason);
  }

  #open(token) {
    let socket;
    try {
      const protocols = token === null ? [] : [[PROTOCOL, TOKEN_PROTOCOL + token]];
      socket = this.#openSocket(this.#url, ...protocols);
    } catch (error) {
      this.#onLost({ code: 1006, reason: error.message }); // an invalid address or token
      return;
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (socket === this.#socket) this.#onOpen();
    };
    socket.onmessage = ({ data, at_s }) => this.#viaNetwork({ socket, data, at_s }); // only a WorkerSocket sets at_s
    socket.onclose = ({ code, reason }) => this.#viaNetwork({ socket, closed: { code, reason } });
  }

  #onOpen() {
    this.#openedAtS = this.#nowS();
    this.#setState("open");
    this.#emit("open", {});
    this.#send({ type: "session.config", ...this.#config });
    for (const message of this.#outbox.splice(0)) this.#send(message);
    this.#answer(true);
  }

  #onLost({ code, reason }) {
    const opened = this.#openedAtS !== null;
    if (opened && this.#nowS() - this.#openedAtS >= STABLE_S) this.#attempt = 0;
    // The caller retries a connection that never opened: connect() has returned false.
    const mayReconnect = (opened && !FINAL_CLOSE_CODES.has(code)) || (this.#state === "reconnecting" && code !== 1008);
    this.#leave("lost");
    if (this.#reconnects && mayReconnect && this.#attempt < BACKOFF_S.length) this.#scheduleReconnect();
    else {
      this.#attempt = 0;
      this.#setState("closed");
      this.#answer(false);
    }
    this.#emit("closed", { code, reason, opened });
  }

  #scheduleReconnect() {
    // Randomised, so that not all clients reconnect at once after a restart of the server.
    const delayS = Math.max(this.#retryAfterS, BACKOFF_S[this.#attempt] * (0.5 + this.#random()));
    this.#attempt += 1;
    this.#retryAfterS = 0;
    this.#setState("reconnecting");
    this.#cancelRetry = this.#schedule(1000 * delayS, () => this.#begin());
  }

  #answer(isOpen) {
    for (const resolve of this.#waiting.splice(0)) resolve(isOpen);
  }

  #setState(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#emit("state", { state });
  }

  // -- Receiving -------

  #viaNetwork(frame) {
    if (this.#network === null) this.#receive(frame);
    else this.#network.push(frame, frame.data?.byteLength ?? frame.data?.length ?? 0);
  }

  #receive({ socket, data, closed, at_s = this.#nowS() }) {
    if (socket !== this.#socket) return;
    if (closed !== undefined) this.#onLost(closed);
    else if (typeof data === "string") this.#receiveText(data, at_s);
    else this.#receiveAudio(data, at_s);
  }

  #receiveText(data, at_s) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      message = null;
    }
    if (typeof message?.type !== "string") {
      this.#refuse("The server sent an invalid message.");
      return;
    }
    this.#emit("message", { direction: "in", at_s, data: message });
    this.#onMessage(message);
    if (!OWN_EVENTS.has(message.type)) this.#emit(message.type, message);
  }

  #onMessage(message) {
    const { type, context_id: contextId } = message;
    if (type === "audio.start") this.#start = message;
    if (type === "error") this.#retryAfterS = (message.retry_after_ms ?? 0) / 1000;
    if (type === "audio.cancelled") {
      const cancels = (this.#cancelling.get(contextId) ?? 0) - 1;
      if (cancels > 0) this.#cancelling.set(contextId, cancels);
      else this.#cancelling.delete(contextId);
    }
  }

  #receiveAudio(data, at_s) {
    this.#emit("message", { direction: "in", at_s, data: { bytes: data.byteLength } });
    const start = this.#start;
    if (start === null) {
      this.#refuse("The server sent audio without an audio.start.");
      return;
    }
    if (this.#cancelling.has(start.context_id)) return;
    if (start.format === "pcm" && data.byteLength % 2 !== 0) {
      this.#refuse("The server sent half a sample."); // all later samples would be noise
      return;
    }
    this.#emit("audio", { bytes: new Uint8Array(data), start, arrived_at_s: at_s });
  }

  #refuse(message) {
    this.close();
    this.#emit("error", { type: "error", code: "bad_server_message", message, fatal: true, retryable: true });
  }

  #send(message) {
    if (this.#state === "connecting") {
      this.#outbox.push(message);
      return;
    }
    this.#emit("message", { direction: "out", at_s: this.#nowS(), data: message });
    this.#socket.send(JSON.stringify(message), (at_s) => this.#emit("sent", { at_s, data: message }));
  }

  #emit(type, detail) {
    for (const listener of this.#listeners.get(type) ?? []) listener(detail);
  }
}

function named(contextId) {
  return contextId === undefined ? {} : { context_id: contextId };
}
