// Worker side of worker-socket.js: the WebSocket itself.

let socket;
let originMs; // of the page's clock

onmessage = ({ data: message }) => {
  if (message.url !== undefined) open(message);
  else if (message.how !== undefined) socket?.close(...message.how);
  else {
    socket?.send(message.data);
    postMessage({ at_s: nowS() });
  }
};

function nowS() {
  return (performance.now() + performance.timeOrigin - originMs) / 1000;
}

function open({ url, protocols, ...page }) {
  originMs = page.originMs;
  try {
    socket = new WebSocket(url, protocols);
  } catch (error) {
    postMessage({ closed: { code: 1006, reason: error.message } });
    return;
  }
  socket.binaryType = "arraybuffer";
  socket.onopen = () => postMessage({});
  socket.onmessage = ({ data }) => postMessage({ data, at_s: nowS() }, typeof data === "string" ? [] : [data]);
  socket.onclose = ({ code, reason }) => postMessage({ closed: { code, reason } });
}
