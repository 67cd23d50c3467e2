// WebSocket in a Worker: both sides, with a fake Worker and a fake WebSocket.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

import { WorkerSocket } from "../../../web_demo/protocol/worker-socket.js";

const STATES = { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 };
const SCRIPT = readFileSync(new URL("../../../web_demo/protocol/socket-worker.js", import.meta.url), "utf8");
const WORKER_STARTED_MS = 250; // after the page

/** Both sides, with the worker's in its own context; `real` is the WebSocket that it opens. */
function make({ url = "ws://here/", protocols = ["a"], clock = { ms: 0 } } = {}) {
  const made = { events: [], clock, terminated: false };
  class RealSocket {
    sent = [];
    constructor(...how) {
      if (how[0] === "nonsense") throw new SyntaxError("invalid address");
      made.real = this;
      this.how = how;
    }
    send(data) {
      this.sent.push(data);
    }
    close(...how) {
      this.closedWith = how;
    }
  }
  globalThis.WebSocket = STATES;
  globalThis.Worker = class {
    constructor(script) {
      assert.match(String(script), /web_demo\/protocol\/socket-worker\.js$/);
      const postMessage = (data, transferred = []) => {
        made.transferred = transferred;
        if (!made.terminated) this.onmessage({ data });
      };
      const time = { timeOrigin: performance.timeOrigin + WORKER_STARTED_MS, now: () => clock.ms };
      made.context = vm.createContext({ WebSocket: RealSocket, postMessage, performance: time });
      vm.runInContext(SCRIPT, made.context);
      made.worker = this;
    }
    postMessage(data) {
      made.inbox = [...(made.inbox ?? []), data]; // delivered later, as by a real worker
    }
    terminate() {
      made.terminated = true;
    }
  };
  made.settle = () => {
    for (const data of made.inbox?.splice(0) ?? []) made.context.onmessage({ data });
  };
  const socket = new WorkerSocket(url, protocols);
  assert.equal(socket.readyState, STATES.CONNECTING);
  socket.onopen = () => made.events.push("open");
  socket.onmessage = ({ data, at_s }) => made.events.push([data, at_s]);
  socket.onclose = ({ code, reason }) => made.events.push(["closed", code, reason]);
  return Object.assign(made, { socket });
}

function opened() {
  const made = make();
  made.settle();
  made.real.onopen();
  return made;
}

test("it opens, sends and receives like a WebSocket", () => {
  const made = make();
  made.settle();
  assert.deepEqual([...made.real.how].map(String), ["ws://here/", "a"]);
  made.real.onopen();
  assert.equal(made.socket.readyState, STATES.OPEN);
  made.socket.send("text", () => {});
  made.settle();
  assert.deepEqual(made.real.sent, ["text"]);
  made.real.onmessage({ data: "{}" });
  assert.deepEqual(made.events, ["open", ["{}", WORKER_STARTED_MS / 1000]]);
});

test("messages have their arrival time on the page's clock, and audio is transferred, not copied", () => {
  const made = opened();
  made.clock.ms = 1500;
  const audio = new ArrayBuffer(4);
  made.real.onmessage({ data: audio });
  assert.equal(made.real.binaryType, "arraybuffer");
  assert.deepEqual([...made.transferred], [audio]);
  assert.equal(made.events[1][0], audio);
  assert.ok(Math.abs(made.events[1][1] - 1.75) < 1e-6);
});

test("sent messages have the time when the worker sent them, in order", () => {
  const made = opened();
  const sent = [];
  made.socket.send("a", (at_s) => sent.push(["a", at_s]));
  made.socket.send("b", (at_s) => sent.push(["b", at_s]));
  made.clock.ms = 20;
  assert.deepEqual(sent, []);
  made.settle();
  assert.deepEqual(sent.map(([data]) => data), ["a", "b"]);
  assert.ok(sent.every(([, at_s]) => Math.abs(at_s - 0.27) < 1e-6));
});

test("a close is passed on, and its event terminates the worker", () => {
  const made = opened();
  made.socket.close(1000, "stopped");
  assert.equal(made.socket.readyState, STATES.CLOSING);
  made.settle();
  assert.deepEqual([...made.real.closedWith], [1000, "stopped"]);
  assert.equal(made.terminated, false);
  made.real.onclose({ code: 1000, reason: "" });
  assert.deepEqual(made.events.at(-1), ["closed", 1000, ""]);
  assert.ok(made.terminated);
  assert.equal(made.socket.readyState, STATES.CLOSED);
});

test("an invalid address and a failed worker are a socket that never opened", () => {
  const invalid = make({ url: "nonsense" });
  invalid.settle();
  assert.deepEqual(invalid.events, [["closed", 1006, "invalid address"]]);
  const blocked = make();
  blocked.worker.onerror();
  assert.deepEqual(blocked.events, [["closed", 1006, ""]]);
  assert.ok(blocked.terminated);
  blocked.socket.send("text", assert.fail); // ignored
});
