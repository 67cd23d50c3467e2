// Fakes of WebSocket and timers for the unit tests.

export class FakeSocket {
  readyState = 0;
  sent = [];
  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  send(data) {
    this.sent.push(JSON.parse(data));
  }
  close(code) {
    this.readyState = 3;
    this.closedWith = code;
  }
  receive(message) {
    this.onmessage({ data: message instanceof ArrayBuffer ? message : JSON.stringify(message) });
  }
  lose(code, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

/** A clock that moves by `advance` only, with the modules' `schedule` and `nowMs`. */
export class FakeTimers {
  nowMs = 0;
  #timers = [];
  schedule = (ms, callback) => {
    const timer = { atMs: this.nowMs + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer);
    };
  };
  get pending() {
    return this.#timers.length;
  }
  /** Run the timers of the next `ms`, in order. */
  advance(ms) {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const due = this.#timers.filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((each) => each !== due);
      this.nowMs = Math.max(this.nowMs, due.atMs);
      due.callback();
    }
    this.nowMs = untilMs;
  }
}
