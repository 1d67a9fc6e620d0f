//! The monitor's paths for programs, as an OpenAPI document made from the same table of parameters that checks them.

use serde_json::{Map, Value, json};

use super::humans::{CONVERSATION, QUESTIONS};
use super::monitor::{EVENTS, JOBS, SESSIONS, STATS};
use super::params::Param;
use super::tasks::TASKS;
use super::workspaces::PART;

/// A path and what it answers.
pub(super) struct Operation {
    pub(super) verb: &'static str,
    pub(super) path: &'static str,
    summary: &'static str,
    params: &'static [Param],
    /// The name of the schema of its answer.
    answer: &'static str,
}

const fn get(path: &'static str, answer: &'static str, params: &'static [Param], summary: &'static str) -> Operation {
    Operation { verb: "get", path, summary, params, answer }
}

pub(super) const OPERATIONS: &[Operation] = &[
    get("/api/health", "Health", &[], "How the gateway and its monitor are"),
    get("/api/agents", "Agents", &[], "The team, from the configuration"),
    get("/api/agents/{id}/tasks", "Tasks", &[], "An agent's tasks that are not archived"),
    get("/api/agents/{id}/tasks/{taskId}", "Task", &[], "One task, archived ones too"),
    get("/api/agents/{id}/current", "Current", &[], "The task that an agent works on"),
    get("/api/agents/{id}/blocked", "Tasks", &[], "An agent's tasks that are blocked"),
    get("/api/agents/{id}/history", "Tasks", &[], "An agent's finished tasks, the newest month first"),
    get("/api/agents/{id}/plans", "Plans", &[], "Plans that an agent has handed in"),
    get("/api/team-state", "TeamState", &[], "Every agent with its current task and counts of its tasks"),
    get("/api/tasks", "TeamTasks", TASKS, "Open tasks of the whole team"),
    get("/api/tasks/{id}", "Task", &[], "One task of anybody, archived ones too"),
    get("/api/tasks/{id}/conversation", "Conversation", CONVERSATION, "What was said for a task, oldest first"),
    get("/api/human-queries", "HumanQueries", QUESTIONS, "Questions to people, the newest first"),
    Operation {
        verb: "post",
        path: "/api/human-queries/{id}/answer",
        summary: "Answer a question; the first answer stands. On the gateway's and the hub's port",
        params: &[],
        answer: "HumanQuery",
    },
    get("/api/channels", "Channels", &[], "Chat networks, and how each is"),
    get("/api/plugins", "Plugins", &[], "Slots, what fills each, and how it does"),
    get("/api/workspace/{id}/files", "WorkspaceEntry", &[], "The files of an agent's workspace"),
    get("/api/workspace/{id}/files/{*path}", "WorkspaceEntry", PART, "A folder of it, or a part of a file"),
    get("/api/milestones", "Milestones", &[], "Milestones with their items"),
    get("/api/todos", "Todos", &[], "Todos"),
    get("/api/events", "Events", EVENTS, "Events, newest first; with `since` oldest first"),
    get("/api/work-sessions", "WorkSessions", SESSIONS, "Work sessions, the latest activity first"),
    get("/api/work-sessions/{id}", "WorkSession", &[], "One work session with its threads"),
    Operation {
        verb: "post",
        path: "/api/tasks/update",
        summary: "Note progress on a task, or change its steps; on the gateway's and the hub's port",
        params: &[],
        answer: "TaskChanged",
    },
    Operation {
        verb: "patch",
        path: "/api/work-sessions/{id}/category",
        summary: "Say which category a work session has; null takes it back",
        params: &[],
        answer: "WorkSession",
    },
    get("/api/jobs", "Jobs", JOBS, "Jobs between agents, the latest change first"),
    get("/api/jobs/{id}", "Job", &[], "One job"),
    get("/api/stats", "Stats", STATS, "Counts by day: categories, sources, roles, and what nobody could tell"),
    get("/api/openapi.json", "Document", &[], "This document"),
];

/// The whole of it; it depends on nothing that a gateway knows.
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        // What takes all that is left of a path is a name like any other there.
        let path = paths.entry(operation.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[operation.verb] = operation.describe();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Chela monitor",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Reads need a token with operator.read, on the monitor's own port none where `monitor.openReads` is on. `/ws` (WebSocket, `?since=SEQ`) tells events as they come.",
        },
        "security": [{ "bearer": [] }, { "monitorToken": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "monitorToken": { "type": "apiKey", "in": "header", "name": "X-Task-Monitor-Token" },
            },
            "schemas": schemas(),
        },
    })
}

impl Operation {
    fn describe(&self) -> Value {
        let in_path = self
            .path
            .split(['{', '}'])
            .skip(1)
            .step_by(2)
            .map(|name| name.trim_start_matches('*'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
        let parameters: Vec<Value> = in_path.chain(self.params.iter().map(|param| param.describe())).collect();
        let answer = |description: &str, schema: &str| {
            let content = json!({ "application/json": { "schema": reference(schema) } });
            json!({ "description": description, "content": content })
        };
        let mut responses = json!({
            "200": answer("The answer", self.answer),
            "400": answer("A parameter is not what it may be", "Error"),
            "401": answer("A token is missing or wrong", "Error"),
            "503": answer("The index is being made, or the gateway stops", "Error"),
        });
        if self.path.contains('{') {
            responses["404"] = answer("Nothing has this id", "Error");
        }
        let mut operation = json!({ "summary": self.summary, "parameters": parameters, "responses": responses });
        if self.verb != "get" {
            operation["responses"]["403"] =
                answer("The token's scope does not reach, or this monitor only reads", "Error");
            let body = match self.path {
                "/api/work-sessions/{id}/category" => "CategoryChange",
                "/api/human-queries/{id}/answer" => "HumanAnswer",
                _ => "TaskChange",
            };
            if body == "HumanAnswer" {
                operation["responses"]["409"] = answer("Somebody answered before, or it is over", "Error");
            }
            let content = json!({ "application/json": { "schema": reference(body) } });
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        operation
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn maybe() -> Value {
    json!({ "type": ["string", "null"] })
}

fn whole() -> Value {
    json!({ "type": "integer" })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn list(name: &str, of: &str) -> Value {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), json!({ "type": "array", "items": reference(of) }));
    json!({ "type": "object", "required": [name], "properties": properties })
}

fn page(name: &str, of: &str) -> Value {
    let mut page = list(name, of);
    page["properties"]["nextCursor"] = json!({ "type": ["string", "null"] });
    page["required"] = json!([name, "nextCursor"]);
    page
}

fn task() -> Value {
    let words = [
        "id",
        "agentId",
        "status",
        "priority",
        "description",
        "context",
        "source",
        "created",
        "lastActivity",
        "createdBy",
        "assignee",
        "estimatedEffort",
        "startDate",
        "dueDate",
        "workSessionId",
        "previousWorkSessionId",
        "milestoneItemId",
        "month",
        "blockedReason",
        "blockedKind",
        "unblockedAction",
        "escalationState",
        "problem",
    ];
    let mut properties: Map<String, Value> = words.iter().map(|name| ((*name).to_owned(), text())).collect();
    for name in ["progress", "dependsOn", "unblockedBy"] {
        properties.insert(name.to_owned(), texts());
    }
    let status = json!({ "type": "string", "enum": ["done", "in_progress", "pending", "skipped"] });
    let step = json!({ "id": text(), "content": text(), "order": whole(), "status": status });
    let step = object(&["id", "content", "status", "order"], step);
    let counts = ["total", "done", "inProgress", "pending", "skipped"];
    let progress: Map<String, Value> = counts.iter().map(|name| ((*name).to_owned(), whole())).collect();
    let outcome = object(&[], json!({ "kind": text(), "summary": text(), "reason": text() }));
    let rest = [
        ("unblockRequestCount", whole()),
        ("outcome", outcome),
        ("steps", json!({ "type": "array", "items": step })),
        ("stepsProgress", object(&counts, Value::Object(progress))),
    ];
    properties.extend(rest.map(|(name, schema)| (name.to_owned(), schema)));
    object(&["id"], Value::Object(properties))
}

fn question() -> Value {
    let words = [
        "id",
        "runId",
        "taskId",
        "agentId",
        "nodeId",
        "messageId",
        "question",
        "workSessionId",
        "conversationId",
        "askerSessionKey",
        "taskAgentId",
        "taskSessionKey",
        "defaultAnswer",
        "reason",
    ];
    let numbers = ["leftOut", "createdAt", "updatedAt", "deadline", "escalatedAt"];
    let mut properties: Map<String, Value> = words.iter().map(|name| ((*name).to_owned(), text())).collect();
    properties.extend(numbers.iter().map(|name| ((*name).to_owned(), whole())));
    let states = chela_question::State::ALL.map(chela_question::State::as_str);
    let answer = json!({ "text": text(), "by": text(), "via": text(), "at": whole() });
    let rest = [
        ("questions", texts()),
        ("state", json!({ "type": "string", "enum": states })),
        ("answer", object(&["text", "by", "via", "at"], answer)),
    ];
    properties.extend(rest.map(|(name, schema)| (name.to_owned(), schema)));
    let required = ["id", "agentId", "nodeId", "question", "questions", "createdAt", "askerSessionKey", "state"];
    object(&required, Value::Object(properties))
}

fn schemas() -> Value {
    let counts = || json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let role = json!({ "type": "string", "enum": crate::event::Role::ALL.map(crate::event::Role::as_str) });
    let source = json!({ "type": "string", "enum": ["manual", "rule", "heuristic", "fallback", "manual_override"] });
    let mark = json!({ "type": "string", "enum": ["todo", "in_progress", "done"] });
    let state = json!({ "type": "string", "enum": ["active", "blocked", "resolved"] });
    let thread = object(
        &["key", "participants", "state", "startedAt", "lastTs", "lastSeq", "eventCount", "messageCount", "roleCounts"],
        json!({
            "key": text(), "conversationId": maybe(), "participants": texts(), "state": state, "startedAt": whole(), "lastTs": whole(),
            "lastSeq": whole(), "eventCount": whole(), "messageCount": whole(), "roleCounts": counts(), "lastMessage": maybe(), "lastFrom": maybe(),
        }),
    );
    let session = object(
        &[
            "workSessionId",
            "title",
            "status",
            "startedAt",
            "lastActivity",
            "lastSeq",
            "participants",
            "eventCount",
            "messageCount",
            "roleCounts",
            "typeCounts",
            "threadCounts",
            "taskIds",
            "categoryConfidence",
            "categorySource",
        ],
        json!({
            "workSessionId": text(), "title": text(), "status": { "type": "string", "enum": ["ACTIVE", "QUIET", "ARCHIVED"] },
            "startedAt": whole(), "lastActivity": whole(), "lastSeq": whole(), "participants": texts(), "eventCount": whole(),
            "messageCount": whole(), "roleCounts": counts(), "typeCounts": counts(), "threadCounts": counts(), "taskIds": texts(),
            "previousWorkSessionId": text(), "collabCategory": text(), "collabSecondary": texts(), "collabSubTags": texts(),
            "categoryConfidence": { "type": "number", "minimum": 0, "maximum": 1 }, "categorySource": source, "categoryVersion": text(),
            "categoryReason": text(), "categoryUpdatedBy": text(), "categoryUpdatedAt": text(),
            "classification": { "anyOf": [reference("Classification"), { "type": "null" }] },
            "threads": { "type": "array", "items": reference("Thread") },
            "matches": { "type": "array", "items": reference("Match") },
        }),
    );
    let event = object(
        &["type", "ts", "seq", "data"],
        json!({
            "id": text(), "type": text(), "ts": { "type": "number" }, "seq": whole(),
            "data": { "type": "object", "required": ["eventRole"], "properties": { "eventRole": role } },
        }),
    );
    let day = object(
        &["workSessions", "categories", "sources", "fallbackShare", "events", "roles", "unknownRoles", "unknownShare"],
        json!({
            "day": text(), "workSessions": whole(), "categories": counts(), "sources": counts(), "fallbackShare": { "type": "number" },
            "events": whole(), "roles": counts(), "unknownRoles": whole(), "unknownShare": { "type": "number" },
        }),
    );
    let speaker = json!({ "type": "string", "enum": ["orchestrator", "agent", "human", "system"] });
    let turn = object(
        &["runId", "taskId", "turnIndex", "role", "content", "timestamp"],
        json!({
            "runId": text(), "taskId": text(), "turnIndex": whole(), "role": speaker, "content": text(),
            "timestamp": whole(), "agentId": text(), "messageId": text(), "sessionId": text(),
        }),
    );
    let monitor = object(
        &["events", "malformedLines", "unknownRoles", "leftToClassify"],
        json!({
            "events": whole(), "malformedLines": whole(), "unknownRoles": whole(), "leftToClassify": whole(),
            "indexingPercent": whole(), "renewalPercent": whole(), "problem": text(),
        }),
    );
    let mut schemas = json!({
        "Health": object(&["ok", "failing", "version", "uptimeMs", "agents", "monitor"], json!({
            "ok": { "type": "boolean" }, "failing": texts(), "version": text(), "uptimeMs": whole(), "agents": whole(), "monitor": monitor,
        })),
        "Agents": list("agents", "Agent"),
        "Agent": object(&["id", "name", "role", "isDefault"], json!({
            "id": text(), "name": text(), "role": text(), "team": maybe(), "isDefault": { "type": "boolean" },
        })),
        "Tasks": list("tasks", "Task"),
        "TeamTasks": object(&["tasks", "total"], json!({ "tasks": { "type": "array", "items": reference("Task") }, "total": whole() })),
        "Task": task(),
        "Current": object(&["task"], json!({
            "task": { "anyOf": [reference("Task"), { "type": "null" }] }, "continuation": reference("Continuation"),
        })),
        "Continuation": continuation(),
        "Plans": list("plans", "Plan"),
        "Plan": object(&["id"], json!({ "id": text(), "status": maybe(), "taskId": maybe(), "body": text(), "problem": text() })),
        "TeamState": list("agents", "AgentState"),
        "AgentState": object(&["agentId", "current", "taskCounts"], json!({
            "agentId": text(), "team": maybe(), "steps": object(&["done", "total"], json!({ "done": whole(), "total": whole() })),
            "current": { "anyOf": [reference("Task"), { "type": "null" }] }, "taskCounts": counts(),
        })),
        "Events": page("events", "Event"),
        "Event": event,
        "WorkSessions": page("workSessions", "WorkSession"),
        "WorkSession": session,
        "Thread": thread,
        "Classification": classification(),
        "Match": object(&["seq", "ts", "type", "passage"], json!({
            "seq": whole(), "ts": whole(), "type": text(), "fromAgent": maybe(), "passage": text(),
        })),
    });
    // Two lists, since the macro goes only so deep.
    let further = json!({
        "Milestones": list("milestones", "Milestone"),
        "Milestone": object(&["id", "title", "status", "items"], json!({
            "id": text(), "title": text(), "description": text(), "dueDate": text(), "updatedAt": text(), "status": mark,
            "items": { "type": "array", "items": object(&["id", "title", "status"], json!({
                "id": text(), "title": text(), "status": mark, "taskId": text(), "updatedAt": text(),
            })) },
        })),
        "Channels": list("channels", "Channel"),
        "Channel": object(&["channel", "status", "detail", "since", "connections", "undelivered"], json!({
            "channel": text(), "detail": text(), "since": whole(), "connections": texts(), "undelivered": whole(),
            "status": { "type": "string", "enum": ["starting", "ready", "degraded", "needs-auth", "stopped"] },
            "plugin": { "type": ["object", "null"] }, "received": whole(), "delivered": whole(), "refused": whole(),
            "restarts": whole(),
        })),
        "Plugins": plugins(),
        "WorkspaceEntry": workspace_entry(),
        "HumanQueries": page("humanQueries", "HumanQuery"),
        "HumanQuery": question(),
        "HumanAnswer": object(&["answer"], json!({ "answer": text() })),
        "Conversation": object(&["taskId", "turns", "total", "nextCursor"], json!({
            "taskId": text(), "workSessionId": maybe(), "total": whole(), "nextCursor": maybe(),
            "turns": { "type": "array", "items": turn },
        })),
        "Todos": list("todos", "Todo"),
        "Todo": object(&["id", "title", "status"], json!({ "id": text(), "title": text(), "status": mark, "updatedAt": text() })),
        "TaskChange": object(&["taskId", "agentId"], json!({
            "taskId": text(), "agentId": text(), "progress": text(), "stepId": text(), "stepContent": text(), "stepsOrder": texts(),
            "action": { "type": "string", "enum": ["set_steps", "add_step", "complete_step", "start_step", "skip_step", "reorder_steps"] },
            "steps": { "type": "array", "items": object(&["content"], json!({ "content": text(), "status": text() })) },
        })),
        "TaskChanged": object(&["success", "taskId", "status", "message"], json!({
            "success": { "type": "boolean" }, "taskId": text(), "status": text(), "message": text(), "stepId": text(),
            "stepsProgress": { "type": "object" }, "currentStep": { "type": "object" },
        })),
        "CategoryChange": object(&["collabCategory"], json!({ "collabCategory": maybe(), "updatedBy": text() })),
        "Jobs": list("jobs", "Job"),
        "Job": object(&["jobId"], json!({ "jobId": text(), "status": text() })),
        "Stats": object(&["days", "total"], json!({ "days": { "type": "array", "items": reference("Day") }, "total": reference("Day") })),
        "Day": day,
        "Document": { "type": "object", "required": ["openapi", "paths"] },
        "Error": object(&["error"], json!({
            "error": object(&["code", "message"], json!({ "code": text(), "message": text(), "field": text() })),
        })),
    });
    if let (Value::Object(schemas), Value::Object(further)) = (&mut schemas, further) {
        schemas.extend(further);
    }
    schemas
}

/// How an agent is kept at its task.
fn continuation() -> Value {
    object(
        &["enabled", "aborted", "busy", "next", "counters", "last"],
        json!({
            "enabled": { "type": "boolean" }, "aborted": { "type": "boolean" }, "busy": { "type": "boolean" },
            "next": { "anyOf": [object(&["layer", "at"], json!({ "layer": text(), "at": whole() })), { "type": "null" }] },
            "counters": { "type": ["object", "null"] },
            "last": { "anyOf": [
                object(&["taskId", "layer", "at", "action", "reason"], json!({
                    "taskId": text(), "layer": text(), "at": whole(), "action": text(), "reason": text(),
                })),
                { "type": "null" },
            ] },
        }),
    )
}

/// Slots with what fills them.
fn plugins() -> Value {
    let states = ["loading", "serving", "probation", "quarantined", "disabled", "failed", "empty"];
    let words = object(
        &["name", "version", "hash", "source"],
        json!({ "name": text(), "version": text(), "hash": text(), "source": text() }),
    );
    let waiting = object(&["source", "moreGrants"], json!({ "source": text(), "moreGrants": texts() }));
    let or_none = |schema: Value| json!({ "anyOf": [schema, { "type": "null" }] });
    let slot = object(
        &["slot", "state", "plugin", "grants", "problem", "waiting", "memoryBytes", "stats"],
        json!({
            "slot": text(), "state": { "type": "string", "enum": states }, "plugin": or_none(words), "grants": texts(), "onFailure": maybe(),
            "problem": maybe(), "waiting": or_none(waiting), "limits": { "type": ["object", "null"] }, "memoryBytes": whole(),
            "stats": { "type": "object" },
        }),
    );
    object(
        &["slots", "installed", "unrecorded", "interfaceVersion"],
        json!({ "slots": { "type": "array", "items": slot }, "installed": texts(), "unrecorded": whole(), "interfaceVersion": text() }),
    )
}

/// A folder with its entries, or a file with a part of its text.
fn workspace_entry() -> Value {
    let kind = json!({ "type": "string", "enum": ["directory", "file", "link"] });
    let entry = object(&["name", "kind"], json!({ "name": text(), "kind": kind }));
    object(
        &["agentId", "path", "kind"],
        json!({
            "agentId": text(), "path": text(), "kind": { "type": "string", "enum": ["directory", "file"] },
            "entries": { "type": "array", "items": entry }, "more": { "type": "boolean" }, "size": whole(), "offset": whole(),
            "content": text(), "nextOffset": { "type": ["integer", "null"] },
        }),
    )
}

/// What the classifier said.
fn classification() -> Value {
    object(
        &["primary", "secondary", "subTags", "confidence", "source", "reason", "version", "at"],
        json!({
            "primary": maybe(), "secondary": texts(), "subTags": texts(), "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
            "source": { "type": "string", "enum": ["rule", "heuristic", "fallback"] }, "reason": text(), "version": maybe(), "at": whole(),
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_monitor_is_described_and_every_description_has_a_path() {
        let routes = super::super::routes();
        let mut there: Vec<(String, String)> = routes
            .list()
            .iter()
            .filter(|route| route.path.starts_with("/api/"))
            .map(|route| (route.method.as_str().to_lowercase(), route.path.to_owned()))
            .collect();
        let mut described: Vec<(String, String)> =
            OPERATIONS.iter().map(|operation| (operation.verb.to_owned(), operation.path.to_owned())).collect();
        there.sort();
        described.sort();
        assert_eq!(there, described);
    }
}
