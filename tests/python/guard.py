"""A guard in Python, the same as tests/guests/careful and tests/js/guard.js: it blocks the tool of its configuration while steps are
open, warns of long arguments, and tidies a text that says so."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import tool_guard as wit
from wit_world.exports.lifecycle import ConfigError, Description
from wit_world.imports import log
from wit_world.imports.tasks import StepStatus
from wit_world.imports.types import Failure_InvalidInput

guarded = None


class Lifecycle(exports.Lifecycle):
    def describe(self):
        return Description("careful-python", "0.1.0", "Guards one tool, in Python", "", [("limits.cpuMs", "40")])

    def configure(self, json_text):
        global guarded
        config = json.loads(json_text)
        guarded = config.pop("tool", None)
        for path in config:
            raise Err(ConfigError(path, "only `tool` is known"))


class ToolGuard(exports.ToolGuard):
    def before_tool_call(self, request):
        arguments = json.loads(request.arguments)
        text = arguments.get("progress", "")
        if text == "!refuse":
            raise Err(Failure_InvalidInput("it was told to refuse"))
        if request.tool == guarded:
            steps = request.task.steps if request.task is not None else []
            remaining = [step.id for step in steps if step.status not in (StepStatus.DONE, StepStatus.SKIPPED)]
            log.write(log.Level.INFO, f"{len(remaining)} open for {request.agent.id}")
            refusal = wit.Refusal(f"{request.tool} is guarded", remaining, ["finish the steps"])
            return wit.Answer(wit.Verdict_Block(refusal), [])
        if text.startswith("!tidy "):
            tidied = {**arguments, "progress": text.removeprefix("!tidy ").strip()}
            return wit.Answer(wit.Verdict_Rewrite(json.dumps(tidied, ensure_ascii=False)), [])
        verdict = wit.Verdict_AllowWith("a long text") if len(text) > 20 else wit.Verdict_Allow()
        return wit.Answer(verdict, [])
