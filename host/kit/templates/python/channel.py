"""{{summary}}.

The network of this example says {"id", "room", "sender", "text"} for each message of a person, and takes {"room", "text"}.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import adapter as wit
from wit_world.exports.lifecycle import ConfigError, Description

url = ""
# All that the next instance must know.
memory = {"open": False}


class Lifecycle(exports.Lifecycle):
    def describe(self):
        return Description("{{name}}", "0.1.0", "{{summary}}", "", [])

    def configure(self, json_text):
        global url
        config = json.loads(json_text)
        given = config.pop("url", None)
        for path in config:
            raise Err(ConfigError(path, "only `url` is known"))
        if not isinstance(given, str):
            raise Err(ConfigError("url", "the address of the network is missing"))
        url = given


class Adapter(exports.Adapter):
    def handle(self, request):
        return wit.Answer([output for happened in request.inputs for output in take(happened)], [])

    def snapshot(self):
        return wit.State("{{name}}/1", json.dumps(memory).encode())

    def restore(self, state):
        global memory
        memory = json.loads(state.bytes)


def take(happened):
    match happened:
        case wit.Input_Started():
            return connect("connecting")
        case wit.Input_SocketOpened():
            memory["open"] = True
            return [status(wit.Health.READY, ""), wit.Output_Checkpoint()]
        case wit.Input_SocketText(frame):
            return said(frame.data)
        case wit.Input_SocketClosed(closed) if closed.refused:
            return [status(wit.Health.FAILED, closed.reason)]
        case wit.Input_SocketClosed(closed):
            memory["open"] = False
            again = wit.Output_SetTimer(wit.SetTimer("again", 1000))
            return [status(wit.Health.CONNECTING, closed.reason), again, wit.Output_Checkpoint()]
        case wit.Input_Timer():
            return connect("connecting again")
        case wit.Input_Deliver(message):
            return deliver(message)
        case wit.Input_Webhook(call):
            return [wit.Output_WebhookResponse(wit.WebhookResponse(call.id, 404, [], []))]
    return []


def connect(detail):
    memory["open"] = False
    opened = wit.OpenSocket("main", literal(url), [], wit.Compression.NONE)
    return [wit.Output_OpenSocket(opened), status(wit.Health.CONNECTING, detail), wit.Output_Checkpoint()]


def said(frame):
    try:
        message = json.loads(frame)
        id, room, sender, text = (message[name] for name in ("id", "room", "sender", "text"))
    except (ValueError, KeyError, TypeError):
        return []
    if not all(isinstance(part, str) for part in (id, room, sender, text)):
        return []
    target = f"channel:{room}"
    inbound = wit.Inbound(
        id=id, kind=wit.Kind_Message(), target=target, session=f"{{name}}:{target}", place=wit.Place.CHANNEL, space="",
        sender_id=sender, sender_name=sender, sender_is_bot=False, addressed=True, agent="", text=text, reply_to="",
    )
    return [wit.Output_Inbound(inbound), wit.Output_Checkpoint()]


def deliver(message):
    if not memory["open"]:
        return [wit.Output_Delivered(wit.DeliveryResult(message.id, [], "not connected", True, 0))]
    frame = json.dumps({"room": message.target.removeprefix("channel:"), "text": message.text}, ensure_ascii=False)
    sent = wit.Output_SendSocket(wit.SendSocket("main", literal(frame)))
    delivered = wit.Output_Delivered(wit.DeliveryResult(message.id, [message.id], "", False, 0))
    return [sent, delivered, wit.Output_Checkpoint()]


def literal(text):
    return [wit.Piece_Literal(text)]


def status(health, detail):
    return wit.Output_Status(wit.Status(health, detail))
