"""{{summary}}."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import tool_guard as wit
from wit_world.exports.lifecycle import ConfigError, Description
from wit_world.imports import log

scratch = "tmp/"


class Lifecycle(exports.Lifecycle):
    def describe(self):
        return Description("{{name}}", "0.1.0", "{{summary}}", "", [])

    def configure(self, json_text):
        global scratch
        config = json.loads(json_text)
        scratch = str(config.pop("scratch", scratch))
        for path in config:
            raise Err(ConfigError(path, "only `scratch` is known"))


class ToolGuard(exports.ToolGuard):
    def before_tool_call(self, request):
        path = str(json.loads(request.arguments).get("path", ""))
        if request.tool != "files_delete" or (path.startswith(scratch) and ".." not in path):
            return wit.Answer(wit.Verdict_Allow(), [])
        log.write(log.Level.INFO, f"{request.agent.id} wanted to delete {path}")
        instructions = ["Ask a person to delete it, or move it to the scratch folder"]
        refusal = wit.Refusal(f"Only files in {scratch} may be deleted", [], instructions)
        return wit.Answer(wit.Verdict_Block(refusal), [])
