// The other end of worker-socket.js.

let socket;

onmessage = ({ data: message }) => {
  if (message.url !== undefined) open(message);
  else if (message.how !== undefined) socket?.close(...message.how);
  else socket?.send(message.data);
};

function open({ url, protocols, originMs }) {
  try {
    socket = new WebSocket(url, protocols);
  } catch (error) {
    postMessage({ closed: { code: 1006, reason: error.message } });
    return;
  }
  socket.binaryType = "arraybuffer";
  socket.onopen = () => postMessage({});
  socket.onmessage = ({ data }) => {
    const at_s = (performance.now() + performance.timeOrigin - originMs) / 1000;
    postMessage({ data, at_s }, typeof data === "string" ? [] : [data]);
  };
  socket.onclose = ({ code, reason }) => postMessage({ closed: { code, reason } });
}
