// Speaks the wire protocol (protocol.md): text in, typed events out.  No DOM, no audio device.
//
// Events: every server message under its own `type` ("audio.start", "session.done", …), and our own:
//   "open" {}      "closed" {code, reason, opened, in_flight, will_reconnect}      "state" {state, attempt, retry_in_s}
//   "audio" {bytes, start, format, arrived_at_s}: of the sentence that `start`, an `audio.start`, began
//   "message" {direction, at_s, data}: everything that passes, binary as {bytes: n}
//   "sent" {at_s, data}: when a WorkerSocket had handed it to the network
// Unknown types pass through unheard, as the protocol demands.

import { CodedError } from "../errors.js";
import { readFrame } from "./frame-header.js";

const PROTOCOL = "realtime-tts.v1";
const TOKEN_PROTOCOL = "realtime-tts.token.";
const OWN_EVENTS = new Set(["open", "closed", "state", "audio", "message", "sent"]);
const FOR_GOOD = new Set([1000, 1001, 1007, 1008, 1009]); // to come again unasked would only be sent away again
const BACKOFF_S = [0.5, 1, 2, 4, 8, 8];
const STEADY_S = 10; // a connection that lived for so long was a good one: the next loss begins anew
const DEFAULTS = { response_format: "pcm", stream_audio: true };

export class SpeechClientError extends CodedError {}

/** A timer as the modules here want it: returns what calls it off. */
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
  #try = 0; // numbers the sockets asked for, so that a token that comes late opens nothing
  #openedAtS = null;
  #retryAfterS = 0; // as the server last said
  #callOff = () => {}; // the timer of the next try
  #stays = false; // connect() was asked for: come back after a loss
  #waiting = []; // those who await connect()
  #config = { ...DEFAULTS };
  #outbox = []; // what was sent while the first connection was being opened
  #contexts = new Map(); // context id -> {pending, writing, cancelling}
  #start = null; // the last audio.start, which says what binary frames are
  #starts = new Map(); // by the number of their context

  /**
   * `token` gives a fresh single-use token (or null) for each socket.  `network`, such as a BadNetwork, has
   * `push(frame, bytes)`, `clear()` and a `deliver` to set: everything received goes through it.
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
      network.deliver = (frame, wasHeld) => this.#receive(wasHeld ? { ...frame, at_s: undefined } : frame);
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

  /** Whether something was asked for that has not yet had its `session.done`. */
  get isInFlight() {
    return [...this.#contexts.values()].some(({ pending }) => pending > 0);
  }

  /**
   * Open the connection where there is none, and send `config` as `session.config`; it is remembered for reconnects.
   * Resolves to whether the connection is open; never rejects.
   */
  connect(config = {}) {
    this.#config = { ...this.#config, ...config };
    this.#stays = true;
    if (this.isOpen) {
      this.#send({ type: "session.config", ...config });
      return Promise.resolve(true);
    }
    const opened = new Promise((resolve) => this.#waiting.push(resolve));
    if (this.#state !== "connecting") this.#begin();
    return opened;
  }

  /** Any slice of text, down to one character. */
  sendText(text, { contextId } = {}) {
    if (typeof text !== "string") throw new TypeError(`text must be a string, got ${typeof text}`);
    this.#mustBeReachable();
    this.#beginUtterance(contextId);
    this.#send({ type: "input.text", text, ...named(contextId) });
  }

  /** The end of the utterance. */
  done({ contextId } = {}) {
    this.#mustBeReachable();
    this.#beginUtterance(contextId);
    this.#context(contextId).writing = false;
    this.#send({ type: "input.done", ...named(contextId) });
  }

  /**
   * Barge-in.  The server answers `audio.cancelled` with what was heard; audio of the context that is still on its way
   * is dropped here.  `playbackOffsetMs` is the context's sound that was played since it began or was last cancelled.
   */
  cancel({ contextId, playbackOffsetMs } = {}) {
    this.#mustBeReachable();
    const context = this.#context(contextId);
    context.writing = false;
    context.cancelling += 1;
    const offset = playbackOffsetMs === undefined ? {} : { playback_offset_ms: playbackOffsetMs };
    this.#send({ type: "input.cancel", ...named(contextId), ...offset });
  }

  /** Correct what the server reckons of our playback; said in vain where there is no connection. */
  reportPlayback({ playedMs, bufferedMs, underruns, contextId }) {
    if (!this.isOpen) return;
    const heard = { played_ms: playedMs, buffered_ms: bufferedMs, underruns }; // JSON leaves out what is undefined
    this.#send({ type: "playback.report", ...named(contextId), ...heard });
  }

  /** Leave at once, whatever is being spoken; nothing of the old connection is heard after this. */
  close() {
    this.#stays = false;
    this.#leave("stopped by the listener");
    this.#setState("closed");
    this.#answer(false);
  }

  #mustBeReachable() {
    if (this.#state === "connecting" || this.isOpen) return;
    throw new SpeechClientError("not_connected", `there is no connection (${this.#state}): call connect() first`);
  }

  #context(contextId = "") {
    if (!this.#contexts.has(contextId)) this.#contexts.set(contextId, { pending: 0, writing: false, cancelling: 0 });
    return this.#contexts.get(contextId);
  }

  #beginUtterance(contextId) {
    const context = this.#context(contextId);
    if (!context.writing) context.pending += 1;
    context.writing = true;
  }

  // -- The connection -------

  #begin() {
    const again = this.#state === "reconnecting";
    this.#leave("opening another connection");
    this.#setState(again ? "reconnecting" : "connecting");
    const attempt = this.#try;
    if (this.#token === null) {
      this.#open(null);
      return;
    }
    this.#token().then(
      (token) => {
        if (attempt === this.#try) this.#open(token);
      },
      (error) => {
        if (attempt === this.#try) this.#onNoToken(error);
      },
    );
  }

  #onNoToken({ code = "no_token", message, retryable = true, retryAfterS = null }) {
    this.#retryAfterS = retryAfterS ?? 0;
    const retry = retryAfterS === null ? {} : { retry_after_ms: 1000 * retryAfterS };
    // While we try again and again, one try that comes to nothing is no news.
    const isNews = !(retryable && this.#state === "reconnecting");
    if (isNews) this.#emit("error", { type: "error", code, message, fatal: true, retryable, ...retry });
    this.#onLost({ code: retryable ? 1006 : 1008, reason: "no token" });
  }

  /** Forget the socket: from here on its events are stale. */
  #leave(reason) {
    const socket = this.#socket;
    this.#try += 1;
    this.#callOff();
    this.#callOff = () => {};
    this.#socket = null;
    this.#openedAtS = null;
    this.#outbox.length = 0;
    this.#contexts.clear();
    this.#start = null;
    this.#starts.clear();
    this.#network?.clear();
    socket?.close(1000, reason);
  }

  #open(token) {
    let socket;
    try {
      const protocols = token === null ? [] : [[PROTOCOL, TOKEN_PROTOCOL + token]];
      socket = this.#openSocket(this.#url, ...protocols);
    } catch (error) {
      this.#onLost({ code: 1006, reason: error.message }); // an address or a token that no socket can be made of
      return;
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (socket === this.#socket) this.#onOpen();
    };
    socket.onmessage = ({ data, at_s }) => this.#carry({ socket, data, at_s }); // stamped by WorkerSocket alone
    socket.onclose = ({ code, reason }) => this.#carry({ socket, closed: { code, reason } });
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
    const inFlight = this.isInFlight;
    if (opened && this.#nowS() - this.#openedAtS >= STEADY_S) this.#attempt = 0;
    // One that never opened is for the caller to try again: somebody is waiting for the answer.
    const trying = (opened && !FOR_GOOD.has(code)) || (this.#state === "reconnecting" && code !== 1008);
    const willReconnect = this.#stays && trying && this.#attempt < BACKOFF_S.length;
    this.#leave("lost");
    if (willReconnect) this.#comeBack();
    else {
      this.#attempt = 0;
      this.#setState("closed");
      this.#answer(false);
    }
    this.#emit("closed", { code, reason, opened, in_flight: inFlight, will_reconnect: willReconnect });
  }

  #comeBack() {
    // Scattered, so that not every page comes at once when a server has restarted.
    const delayS = Math.max(this.#retryAfterS, BACKOFF_S[this.#attempt] * (0.5 + this.#random()));
    this.#attempt += 1;
    this.#retryAfterS = 0;
    this.#setState("reconnecting", delayS);
    this.#callOff = this.#schedule(1000 * delayS, () => this.#begin());
  }

  #answer(isOpen) {
    for (const resolve of this.#waiting.splice(0)) resolve(isOpen);
  }

  #setState(state, retryInS = null) {
    if (state === this.#state && retryInS === null) return;
    this.#state = state;
    this.#emit("state", { state, attempt: this.#attempt, retry_in_s: retryInS });
  }

  // -- What comes in -------

  #carry(frame) {
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
      this.#refuse("The server sent a message that is not JSON of the protocol.");
      return;
    }
    this.#emit("message", { direction: "in", at_s, data: message });
    this.#follow(message);
    if (!OWN_EVENTS.has(message.type)) this.#emit(message.type, message);
  }

  #follow(message) {
    const context = this.#context(message.context_id);
    switch (message.type) {
      case "audio.start":
        this.#start = message;
        this.#starts.set(message.context_number ?? 0, message);
        break;
      case "audio.cancelled":
        context.cancelling = Math.max(0, context.cancelling - 1);
        break;
      case "session.done":
        context.pending = Math.max(0, context.pending - 1);
        if (context.pending === 0 && context.cancelling === 0) this.#forget(message.context_id);
        break;
      case "error":
        this.#retryAfterS = (message.retry_after_ms ?? 0) / 1000;
        if (message.fatal) this.#contexts.clear();
        else if (message.code === "session_ending") context.pending = 0; // what was refused has no session.done
        break;
    }
  }

  /** A context that is over: one for each utterance would else pile up. */
  #forget(contextId) {
    this.#contexts.delete(contextId ?? "");
    for (const [number, start] of this.#starts) if (start.context_id === contextId) this.#starts.delete(number);
  }

  #receiveAudio(data, at_s) {
    this.#emit("message", { direction: "in", at_s, data: { bytes: data.byteLength } });
    const frame = this.#start === null ? null : readFrame(data, this.#start.frame_header);
    const start = this.#starts.get(frame?.contextNumber ?? this.#start?.context_number ?? 0);
    if (frame === null || start === undefined) {
      this.#refuse("The server sent audio that nothing announced.");
      return;
    }
    if (this.#context(start.context_id).cancelling > 0) return;
    const { bytes } = frame;
    if (start.format === "pcm" && bytes.byteLength % 2 !== 0) {
      this.#refuse("The server sent half a sample."); // every later sample would be noise
      return;
    }
    this.#emit("audio", { bytes, start, format: start.format, arrived_at_s: at_s });
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
