"""{{summary}}."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import classification as wit
from wit_world.exports.lifecycle import ConfigError, Description

WORDS = {"outage": "infra_ops", "장애": "infra_ops", "regression": "qa_validation", "회귀": "qa_validation"}
TASKS = ("task", "plan", "continuation", "job", "unblock", "zombie")
SYSTEM = ("gateway", "plugin", "config", "channel", "policy", "log")


class Lifecycle(exports.Lifecycle):
    def describe(self):
        return Description("{{name}}", "0.1.0", "{{summary}}", "", [])

    def configure(self, json_text):
        for path in json.loads(json_text):
            raise Err(ConfigError(path, "this plugin takes no configuration"))


class Classification(exports.Classification):
    def roles(self, request):
        def role(event):
            family = event.event_type.split(".")[0]
            if family in TASKS:
                return wit.Role.ORCHESTRATION_TASK
            if family in SYSTEM:
                return wit.Role.SYSTEM_OBSERVABILITY
            is_sub = any(":subagent:" in key for key in event.session_keys)
            are_main = event.from_agent in request.main_agents and event.to_agent in request.main_agents
            is_conversation = family == "a2a" and are_main and not is_sub
            return wit.Role.CONVERSATION_MAIN if is_conversation else wit.Role.DELEGATION_SUBAGENT

        return wit.RolesAnswer([role(event) for event in request.events], [])

    def categories(self, request):
        # Only categories of the deployment are an answer.
        known = [(word, category) for word, category in WORDS.items() if category in request.categories]

        def classify(conversation):
            text = "\n".join(conversation.texts).lower()
            for word, category in known:
                if word in text:
                    return wit.Classification(category, [], [], 0.9, wit.Source.RULE, f"it says {word}")
            return wit.Classification(None, [], [], 0.0, wit.Source.RULE, "no word that it knows")

        return wit.CategoriesAnswer([classify(conversation) for conversation in request.conversations], [])
