"""A classifier in Python, the same as tests/guests/words and tests/js/classifier.js: it answers by the first word it knows."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import classification as wit
from wit_world.exports.lifecycle import ConfigError, Description
from wit_world.imports import log
from wit_world.imports.types import Failure_InvalidInput

words = [
    ("장애", "infra_ops"),
    ("outage", "infra_ops"),
    ("테스트", "qa_validation"),
    ("regression", "qa_validation"),
]


class Lifecycle(exports.Lifecycle):
    def describe(self):
        summary = "Answers by the first word it knows, in Python"
        return Description("words-python", "0.1.0", summary, "", [("limits.cpuMs", "40")])

    def configure(self, json_text):
        config = json.loads(json_text)
        word, category = config.pop("word", None), config.pop("category", None)
        for path in config:
            raise Err(ConfigError(path, "only `word` and `category` are known"))
        if word is not None:
            words.insert(0, (word, category))


class Classification(exports.Classification):
    def roles(self, request):
        def role(event):
            is_subagent = any(":subagent:" in key for key in event.session_keys)
            return wit.Role.DELEGATION_SUBAGENT if is_subagent else wit.Role.CONVERSATION_MAIN

        return wit.RolesAnswer([role(event) for event in request.events], [])

    def categories(self, request):
        def classify(conversation):
            text = "\n".join(conversation.texts).lower()
            if "!refuse" in text:
                raise Err(Failure_InvalidInput("it was told to refuse"))
            found = next((known for known in words if known[0] in text), None)
            if found is None:
                log.write(log.Level.INFO, "no word that it knows")
                return wit.Classification(None, [], [], 0.0, wit.Source.RULE, "no word that it knows")
            word, category = found
            reason = f"{word} at {request.context.now_ms}"
            return wit.Classification(category, [], [word], 0.9, wit.Source.RULE, reason)

        return wit.CategoriesAnswer([classify(conversation) for conversation in request.conversations], [])
