"""A continuation in Python, the same as tests/guests/firm and tests/js/continuation.js: it says its word and the open steps, waits for
whoever fails again and again, and leaves alone whom its configuration names."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import prompts as wit
from wit_world.exports.lifecycle import ConfigError, Description
from wit_world.imports import log
from wit_world.imports.tasks import StepStatus
from wit_world.imports.types import Failure_InvalidInput

word = "go on"
spare = None


class Lifecycle(exports.Lifecycle):
    def describe(self):
        summary = "Keeps an agent at its task, in Python"
        return Description("firm-python", "0.1.0", summary, "", [("limits.cpuMs", "40")])

    def configure(self, json_text):
        global word, spare
        config = json.loads(json_text)
        word = config.pop("word", "go on")
        spare = config.pop("spare", None)
        for path in config:
            raise Err(ConfigError(path, "only `word` and `spare` are known"))


class Prompts(exports.Prompts):
    def instructions(self, request):
        agent = request.agent
        if agent.id == "!refuse":
            raise Err(Failure_InvalidInput("it was told to refuse"))
        return wit.InstructionsAnswer(f"{word}, {agent.role} {agent.id}", [])

    def next(self, request):
        agent = request.agent
        if agent.id == spare:
            return wit.NextAnswer(wit.Action_Skip(f"{agent.id} is spared"), [])
        if request.same_error >= 2:
            log.write(log.Level.INFO, f"{request.same_error} times {request.last_error}")
            return wit.NextAnswer(wit.Action_Backoff(request.same_error * 1000), [])
        layer = request.layer.name.lower().replace("_", "-")
        steps = request.task.steps if request.task is not None else []
        open_steps = [step.content for step in steps if step.status not in (StepStatus.DONE, StepStatus.SKIPPED)]
        blocker = request.blocker
        why = "" if blocker is None else f" ({blocker.kind}: {blocker.reason})"
        counted = f"{request.counters.in_a_row}/{request.counters.in_a_row_max}"
        text = f"[{layer} {counted}] {word}: {', '.join(open_steps)}{why}"
        return wit.NextAnswer(wit.Action_Send(text), [])
