// Speaks the wire protocol (protocol.md): text in, typed events out.  No DOM, no audio device.
//
// Events: "open", every server message under its own `type` ("audio.start", "session.done", …), "audio" {samples,
// arrived_at_s}, and "closed" {code, reason, opened, in_flight}.  Unknown types pass through unheard, as the protocol
// demands.

export class SpeechClient {
  #url;
  #openSocket;
  #nowS;
  #socket = null;
  #inFlight = false;
  #listeners = new Map();

  constructor({ url, openSocket = (to) => new WebSocket(to), nowS = () => performance.now() / 1000 }) {
    this.#url = url;
    this.#openSocket = openSocket;
    this.#nowS = nowS;
  }

  on(type, listener) {
    const known = this.#listeners.get(type) ?? [];
    this.#listeners.set(type, [...known, listener]);
    return this;
  }

  get isOpen() {
    return this.#socket?.readyState === 1;
  }

  /** Whether an utterance was asked for and has not yet had its `session.done`. */
  get isInFlight() {
    return this.#inFlight;
  }

  /** Ask for one utterance.  A socket that is open is used again; otherwise a new one is opened first. */
  speak({ text, ...config }) {
    if (this.#inFlight) throw new Error("one utterance at a time");
    this.#inFlight = true;
    const ask = () => {
      this.#send({ type: "session.config", response_format: "pcm", stream_audio: true, ...config });
      this.#send({ type: "input.text", text });
      this.#send({ type: "input.done" });
    };
    if (this.isOpen) ask();
    else this.#connect(ask);
  }

  /** Give up the utterance in flight.  This version closes the socket; `input.cancel` will keep it. */
  cancel() {
    if (this.#inFlight) this.close();
  }

  close() {
    const socket = this.#socket;
    this.#socket = null; // from here on its events are stale
    this.#inFlight = false;
    socket?.close(1000, "stopped by the listener");
  }

  #connect(onopen) {
    this.close();
    this.#inFlight = true;
    const socket = this.#openSocket(this.#url);
    let opened = false;
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      if (socket !== this.#socket) return;
      opened = true;
      this.#emit("open", {});
      onopen();
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      if (typeof data === "string") this.#receiveText(data);
      else this.#receiveAudio(data);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket !== this.#socket) return;
      const inFlight = this.#inFlight;
      this.#socket = null;
      this.#inFlight = false;
      this.#emit("closed", { code, reason, opened, in_flight: inFlight });
    };
  }

  #receiveText(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      this.#refuse("The server sent a message that is not JSON.");
      return;
    }
    if (message.type === "session.done" || (message.type === "error" && message.fatal)) this.#inFlight = false;
    this.#emit(message.type, message);
  }

  #receiveAudio(data) {
    if (data.byteLength % 2 !== 0) {
      this.#refuse("The server sent half a sample."); // every later sample would be noise
      return;
    }
    this.#emit("audio", { samples: new Int16Array(data), arrived_at_s: this.#nowS() });
  }

  #refuse(message) {
    this.close();
    this.#emit("error", { type: "error", code: "bad_server_message", message, fatal: true, retryable: true });
  }

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #emit(type, detail) {
    for (const listener of this.#listeners.get(type) ?? []) listener(detail);
  }
}
