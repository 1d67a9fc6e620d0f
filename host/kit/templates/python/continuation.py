"""{{summary}}."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import prompts as wit
from wit_world.exports.lifecycle import ConfigError, Description
from wit_world.imports.tasks import StepStatus


class Lifecycle(exports.Lifecycle):
    def describe(self):
        return Description("{{name}}", "0.1.0", "{{summary}}", "", [])

    def configure(self, json_text):
        for path in json.loads(json_text):
            raise Err(ConfigError(path, "this plugin takes no configuration"))


class Prompts(exports.Prompts):
    def instructions(self, request):
        return wit.InstructionsAnswer("One step at a time. Say what is done.", [])

    def next(self, request):
        if request.task is None:
            return wit.NextAnswer(wit.Action_Skip("there is no task"), [])
        open_steps = [step for step in request.task.steps if step.status not in (StepStatus.DONE, StepStatus.SKIPPED)]
        prompt = f"Go on with {request.task.description}: {len(open_steps)} steps are open."
        return wit.NextAnswer(wit.Action_Send(prompt), [])
