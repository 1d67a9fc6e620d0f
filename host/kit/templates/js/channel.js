// {{summary}}.
//
// The network of this example says {"id", "room", "sender", "text"} for each message of a person, and takes {"room", "text"}.

let url = "";
// All that the next instance must know.
let memory = { open: false };

export const lifecycle = {
  describe: () => ({ name: "{{name}}", version: "0.1.0", summary: "{{summary}}", configSchema: "", attrs: [] }),
  configure(json) {
    const { url: given, ...unknown } = JSON.parse(json);
    const [path] = Object.keys(unknown);
    if (path !== undefined) throw { path, message: "only `url` is known" };
    if (typeof given !== "string") throw { path: "url", message: "the address of the network is missing" };
    url = given;
  },
};

export const adapter = {
  handle: ({ inputs }) => ({ outputs: inputs.flatMap(take), attrs: [] }),
  snapshot: () => ({ schema: "{{name}}/1", bytes: new TextEncoder().encode(JSON.stringify(memory)) }),
  restore({ bytes }) {
    memory = JSON.parse(new TextDecoder().decode(bytes));
  },
};

const checkpoint = { tag: "checkpoint" };
const literal = (text) => [{ tag: "literal", val: text }];
const status = (health, detail) => ({ tag: "status", val: { health, detail } });

function take({ tag, val }) {
  switch (tag) {
    case "started":
      return connect("connecting");
    case "socket-opened":
      memory.open = true;
      return [status("ready", ""), checkpoint];
    case "socket-text":
      return said(val.data);
    case "socket-closed":
      if (val.refused) return [status("failed", val.reason)];
      memory.open = false;
      return [status("connecting", val.reason), { tag: "set-timer", val: { name: "again", afterMs: 1000n } }, checkpoint];
    case "timer":
      return connect("connecting again");
    case "deliver":
      return deliver(val);
    case "webhook":
      return [{ tag: "webhook-response", val: { id: val.id, status: 404, headers: [], body: [] } }];
    default:
      return [];
  }
}

function connect(detail) {
  memory.open = false;
  const open = { connection: "main", url: literal(url), headers: [], compression: "none" };
  return [{ tag: "open-socket", val: open }, status("connecting", detail), checkpoint];
}

function said(frame) {
  let message;
  try {
    message = JSON.parse(frame);
  } catch {
    return [];
  }
  const { id, room, sender, text } = message ?? {};
  if (![id, room, sender, text].every((part) => typeof part === "string")) return [];
  const target = `channel:${room}`;
  const inbound = {
    id, kind: { tag: "message" }, target, session: `{{name}}:${target}`, place: "channel", space: "",
    senderId: sender, senderName: sender, senderIsBot: false, addressed: true, agent: "", text, replyTo: "",
  };
  return [{ tag: "inbound", val: inbound }, checkpoint];
}

function deliver({ id, target, text }) {
  const error = memory.open ? "" : "not connected";
  const delivered = { id, messageIds: error ? [] : [id], error, retry: error !== "", retryMs: 0n };
  if (error) return [{ tag: "delivered", val: delivered }];
  const frame = JSON.stringify({ room: target.replace("channel:", ""), text });
  return [
    { tag: "send-socket", val: { connection: "main", data: literal(frame) } },
    { tag: "delivered", val: delivered },
    checkpoint,
  ];
}
