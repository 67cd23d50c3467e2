// WebSocket in a Worker: it records the time of arrival even while the page renders.

export class WorkerSocket {
  onmessage; // with {data, at_s}, on performance.now()'s clock
  readyState = WebSocket.CONNECTING;
  #worker = new Worker(new URL("./socket-worker.js", import.meta.url), { type: "module" });
  #onsent = [];

  constructor(url, protocols = []) {
    this.#worker.onmessage = ({ data }) => this.#receive(data);
    this.#worker.onerror = () => this.#receive({ closed: { code: 1006, reason: "" } });
    this.#worker.postMessage({ url: String(url), protocols, originMs: performance.timeOrigin });
  }

  /** Calls `onsent(at_s)` when it was sent, with the time on the same clock. */
  send(data, onsent) {
    this.#onsent.push(onsent);
    this.#worker.postMessage({ data });
  }

  close(...how) {
    this.readyState = WebSocket.CLOSING;
    this.#worker.postMessage({ how });
  }

  #receive(message) {
    if (message.closed !== undefined) {
      this.readyState = WebSocket.CLOSED;
      this.#worker.terminate();
      this.onclose(message.closed);
    } else if (message.data !== undefined) this.onmessage(message);
    else if (message.at_s !== undefined) this.#onsent.shift()(message.at_s);
    else {
      this.readyState = WebSocket.OPEN;
      this.onopen();
    }
  }
}
