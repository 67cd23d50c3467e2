// The socket on a thread of its own: both ends, joined by hand, with the real socket faked.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

import { WorkerSocket } from "../../../web_demo/protocol/worker-socket.js";

const STATES = { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 };
const SCRIPT = readFileSync(new URL("../../../web_demo/protocol/socket-worker.js", import.meta.url), "utf8");
const WORKER_STARTED_MS = 250; // after the page

/** The two ends, of which the worker's runs in a world of its own; `real` is the socket that it opens. */
function make({ url = "ws://here/", protocols = ["a"], clock = { ms: 0 } } = {}) {
  const made = { heard: [], clock, terminated: false };
  class RealSocket {
    sent = [];
    constructor(...how) {
      if (how[0] === "nonsense") throw new SyntaxError("no address");
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
      const tell = (data, transferred = []) => {
        made.transferred = transferred;
        if (!made.terminated) this.onmessage({ data });
      };
      const time = { timeOrigin: performance.timeOrigin + WORKER_STARTED_MS, now: () => clock.ms };
      made.world = vm.createContext({ WebSocket: RealSocket, postMessage: tell, performance: time });
      vm.runInContext(SCRIPT, made.world);
      made.worker = this;
    }
    postMessage(data) {
      made.inbox = [...(made.inbox ?? []), data]; // as a real one, never at once
    }
    terminate() {
      made.terminated = true;
    }
  };
  made.settle = () => {
    for (const data of made.inbox?.splice(0) ?? []) made.world.onmessage({ data });
  };
  const socket = new WorkerSocket(url, protocols);
  assert.equal(socket.readyState, STATES.CONNECTING);
  socket.onopen = () => made.heard.push("open");
  socket.onmessage = ({ data, at_s }) => made.heard.push([data, at_s]);
  socket.onclose = ({ code, reason }) => made.heard.push(["closed", code, reason]);
  return Object.assign(made, { socket });
}

function opened() {
  const made = make();
  made.settle();
  made.real.onopen();
  return made;
}

test("it opens, sends and receives as a socket does", () => {
  const made = make();
  made.settle();
  assert.deepEqual([...made.real.how].map(String), ["ws://here/", "a"]);
  made.real.onopen();
  assert.equal(made.socket.readyState, STATES.OPEN);
  made.socket.send("text", () => {});
  made.settle();
  assert.deepEqual(made.real.sent, ["text"]);
  made.real.onmessage({ data: "{}" });
  assert.deepEqual(made.heard, ["open", ["{}", WORKER_STARTED_MS / 1000]]);
});

test("what arrives is stamped on the page's clock, at its arrival, and sound is moved and not copied", () => {
  const made = opened();
  made.clock.ms = 1500;
  const sound = new ArrayBuffer(4);
  made.real.onmessage({ data: sound });
  assert.equal(made.real.binaryType, "arraybuffer");
  assert.deepEqual([...made.transferred], [sound]);
  assert.equal(made.heard[1][0], sound);
  assert.ok(Math.abs(made.heard[1][1] - 1.75) < 1e-6);
});

test("what was sent is stamped when the worker sends it, in order", () => {
  const made = opened();
  const told = [];
  made.socket.send("a", (at_s) => told.push(["a", at_s]));
  made.socket.send("b", (at_s) => told.push(["b", at_s]));
  made.clock.ms = 20;
  assert.deepEqual(told, []);
  made.settle();
  assert.deepEqual(told.map(([data]) => data), ["a", "b"]);
  assert.ok(told.every(([, at_s]) => Math.abs(at_s - 0.27) < 1e-6));
});

test("a close is passed on, and told with the worker's end", () => {
  const made = opened();
  made.socket.close(1000, "stopped");
  assert.equal(made.socket.readyState, STATES.CLOSING);
  made.settle();
  assert.deepEqual([...made.real.closedWith], [1000, "stopped"]);
  assert.equal(made.terminated, false);
  made.real.onclose({ code: 1000, reason: "" });
  assert.deepEqual(made.heard.at(-1), ["closed", 1000, ""]);
  assert.ok(made.terminated);
  assert.equal(made.socket.readyState, STATES.CLOSED);
});

test("an address that is none, and a worker that cannot be had, are a socket that never opened", () => {
  const nowhere = make({ url: "nonsense" });
  nowhere.settle();
  assert.deepEqual(nowhere.heard, [["closed", 1006, "no address"]]);
  const blocked = make();
  blocked.worker.onerror();
  assert.deepEqual(blocked.heard, [["closed", 1006, ""]]);
  assert.ok(blocked.terminated);
  blocked.socket.send("text", assert.fail); // said in vain
});
