//! What every plugin of a world is asked, whatever it decides: nothing at all, a great deal, words that nobody knows, both languages.
//! A good plugin may say what it likes about them. It must not trap, pass its limits, or answer what the host refuses.

use serde_json::{Value, json};

use crate::project::World;

#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub name: &'static str,
    pub export: &'static str,
    pub input: Value,
    pub must: Must,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Must {
    /// Answer something.
    Answer,
    /// Answer, or say that it cannot.
    Survive,
    /// Answer exactly this.
    Say(Value),
}

/// Larger than anything that the host asks: a conversation is cut at 4 KiB, a task file at a few hundred steps.
const HUGE_BYTES: usize = 256 * 1024;
const MANY: usize = 200;

pub fn conformance(world: World) -> Vec<Asked> {
    match world {
        World::Classifier => classifier(),
        World::Guard => guard(),
        World::Continuation => continuation(),
        World::Channel => channel(),
    }
}

fn asked(name: &'static str, export: &'static str, input: Value, must: Must) -> Asked {
    Asked { name, export, input, must }
}

fn classifier() -> Vec<Asked> {
    let table = json!(["infra_ops", "qa_validation", "docs_knowledge"]);
    let of = |conversations: Value| json!({ "categories": table, "conversations": conversations });
    let one = |texts: Value| of(json!([{ "texts": texts, "participants": ["eden", "seum"], "tags": [] }]));
    let many: Vec<Value> = (0..MANY).map(|n| json!({ "texts": [format!("message {n} 메시지")] })).collect();
    let event = |kind: &str| {
        let keys = ["agent:eden:main", "agent:seum:main"];
        json!({ "type": kind, "agent": "eden", "fromAgent": "eden", "toAgent": "seum", "sessionKeys": keys })
    };
    let roles = |events: Value| json!({ "mainAgents": ["eden", "seum"], "events": events });
    let answer = Must::Answer;
    vec![
        asked("no conversations", "categories", of(json!([])), Must::Say(json!([]))),
        asked("a conversation without a word", "categories", of(json!([{}])), answer.clone()),
        asked("English", "categories", one(json!(["The database is down, we roll back"])), answer.clone()),
        asked(
            "Korean",
            "categories",
            one(json!(["데이터베이스가 내려가서 되돌린다", "네, 확인했습니다"])),
            answer.clone(),
        ),
        asked("a huge text", "categories", one(json!(["배포 deploy ".repeat(HUGE_BYTES / 14)])), Must::Survive),
        asked("many conversations", "categories", of(json!(many)), Must::Survive),
        asked("characters beyond the usual", "categories", one(json!(["\u{0}\u{feff}👩‍👩‍👧 \u{202e}abc"])), answer.clone()),
        asked(
            "no categories to choose from",
            "categories",
            json!({ "conversations": [{ "texts": ["장애 outage"] }] }),
            answer.clone(),
        ),
        asked("no events", "roles", roles(json!([])), Must::Say(json!([]))),
        asked("an event of agents", "roles", roles(json!([event("a2a.send")])), answer.clone()),
        asked(
            "an event of a kind that nobody knows",
            "roles",
            roles(json!([event("weather.changed"), event("")])),
            answer.clone(),
        ),
        asked("an event without anything", "roles", roles(json!([{}])), answer),
    ]
}

fn task(steps: usize) -> Value {
    let status = ["done", "in_progress", "pending", "skipped"];
    let step =
        |n: usize| json!({ "id": format!("s{n}"), "content": format!("단계 step {n}"), "status": status[n % 4] });
    let steps: Vec<Value> = (1..=steps).map(step).collect();
    json!({ "id": "task_1", "description": "OAuth 로그인", "status": "in_progress", "steps": steps })
}

fn agent() -> Value {
    json!({ "id": "eden", "role": "worker", "sessionKey": "agent:eden:main" })
}

fn guard() -> Vec<Asked> {
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments, "agent": agent(), "task": task(4) });
    let ask = |name, input, must| asked(name, "before-tool-call", input, must);
    let deep = (0..60).fold(json!("깊은"), |inner, _| json!({ "in": inner }));
    vec![
        ask("a call without anything", json!({}), Must::Survive),
        ask("a tool that nobody knows", call("a_tool_of_tomorrow", json!({})), Must::Answer),
        ask("a task is completed", call("task_complete", json!({ "task_id": "task_1" })), Must::Answer),
        ask(
            "a file is written, in Korean",
            call("files_write", json!({ "path": "노트.md", "content": "안녕하세요" })),
            Must::Answer,
        ),
        ask("a file is read", call("files_read", json!({ "path": "notes.md" })), Must::Answer),
        ask(
            "arguments of other types",
            call("files_write", json!({ "path": 3, "content": [null, true, 1.5] })),
            Must::Survive,
        ),
        ask("deep arguments", call("files_write", deep), Must::Survive),
        ask(
            "a huge argument",
            call("files_write", json!({ "content": "길다 long ".repeat(HUGE_BYTES / 12) })),
            Must::Survive,
        ),
        ask("no task", json!({ "tool": "task_complete", "arguments": {}, "agent": agent() }), Must::Answer),
        ask(
            "a task without steps",
            json!({ "tool": "task_complete", "arguments": {}, "agent": agent(), "task": task(0) }),
            Must::Answer,
        ),
        ask(
            "a task of many steps",
            json!({ "tool": "task_complete", "arguments": {}, "agent": agent(), "task": task(MANY) }),
            Must::Survive,
        ),
        ask(
            "an agent of a role that nobody knows",
            json!({ "tool": "files_read", "agent": { "id": "x", "role": "gardener" } }),
            Must::Answer,
        ),
    ]
}

fn continuation() -> Vec<Asked> {
    let stop = |layer: &str, task: Value| {
        let counters = json!({ "inARow": 1, "inARowMax": 20, "withoutProgress": 1, "requests": 1, "requestsMax": 3 });
        json!({ "agent": agent(), "layer": layer, "task": task, "counters": counters, "idleMs": 500 })
    };
    let next = |name, input, must| asked(name, "next", input, must);
    let blocked = {
        let mut stop = stop("unblock", task(2));
        stop["blocker"] = json!({ "kind": "input", "reason": "비밀번호를 기다린다", "action": "ask", "owner": "seum" });
        stop
    };
    let failing = {
        let mut stop = stop("event-based", task(3));
        (stop["lastError"], stop["sameError"]) = (json!("timeout ".repeat(HUGE_BYTES / 8)), json!(4_000_000_000_u32));
        stop
    };
    vec![
        asked("an agent without anything", "instructions", json!({}), Must::Answer),
        asked("a worker", "instructions", json!({ "agent": agent() }), Must::Answer),
        asked(
            "an orchestrator",
            "instructions",
            json!({ "agent": { "id": "ruda", "role": "orchestrator", "sessionKey": "agent:ruda:main" } }),
            Must::Answer,
        ),
        asked(
            "a role that nobody knows",
            "instructions",
            json!({ "agent": { "id": "x", "role": "gardener" } }),
            Must::Answer,
        ),
        next("a stop without anything", json!({}), Must::Answer),
        next("steps are open", stop("self-driving", task(4)), Must::Answer),
        next("a poll", stop("polling", task(4)), Must::Answer),
        next("no task", stop("backlog", Value::Null), Must::Answer),
        next("a task without steps", stop("zombie", task(0)), Must::Answer),
        next("a task of many steps", stop("self-driving", task(MANY)), Must::Survive),
        next("a blocked task, in Korean", blocked, Must::Answer),
        next("a huge error, again and again", failing, Must::Survive),
    ]
}

/// A network says what it likes, at any time: an adapter bears all of it.
fn channel() -> Vec<Asked> {
    let started = || json!([{ "started": {} }]);
    let after_start = |inputs: Value| json!({ "before": [started()], "inputs": inputs });
    let frame = |data: &str| json!({ "text": { "connection": "main", "data": data } });
    let deliver =
        |id: &str, target: &str, text: &str| json!({ "deliver": { "id": id, "target": target, "text": text } });
    let ask = |name, input| asked(name, "handle", input, Must::Answer);
    let many: Vec<Value> = (0..MANY).map(|n| frame(&format!("{{\"n\":{n},\"text\":\"메시지\"}}"))).collect();
    let question = json!({ "deliver": {
        "id": "q1", "target": "channel:7", "text": "배포할까요?", "replyTo": "m1", "question": { "id": "ask_1", "choices": ["네", "아니요"] },
    } });
    let webhook =
        json!({ "webhook": { "id": "w1", "method": "POST", "path": "events", "body": "{}", "verified": false } });
    vec![
        ask("it starts", json!({ "inputs": started() })),
        ask("it starts and goes on from an earlier state", json!({ "inputs": [{ "started": { "restored": true } }] })),
        ask("it is told nothing", after_start(json!([]))),
        ask("a socket opens that it did not ask for", after_start(json!([{ "opened": { "connection": "nobody" } }]))),
        ask(
            "frames that are no frames of any network",
            after_start(json!([
                frame(""),
                frame("{"),
                frame("[]"),
                frame("null"),
                frame("{\"op\":-1}"),
                frame("안녕")
            ])),
        ),
        ask("a binary frame", after_start(json!([{ "binary": { "connection": "main", "data": "\u{0}binary" } }]))),
        asked("a huge frame", "handle", after_start(json!([frame(&"길다 ".repeat(HUGE_BYTES / 7))])), Must::Survive),
        asked("many frames at once", "handle", after_start(json!(many)), Must::Survive),
        ask(
            "its socket closes",
            after_start(json!([{ "closed": { "connection": "main", "code": 1006, "reason": "gone" } }])),
        ),
        ask(
            "its socket is refused",
            after_start(json!([{ "closed": { "connection": "main", "reason": "not granted", "refused": true } }])),
        ),
        ask("a timer that it did not set", after_start(json!([{ "timer": { "name": "nobody" } }]))),
        ask(
            "an answer that it did not ask for",
            after_start(json!([{ "response": { "id": "nobody", "status": 500, "body": "<html>" } }])),
        ),
        ask("a keepalive", after_start(json!([{ "keepaliveSent": { "connection": "main" } }]))),
        ask("a message for people, in Korean", after_start(json!([deliver("d1", "channel:7", "안녕하세요")]))),
        ask(
            "the same delivery again",
            after_start(json!([deliver("d1", "direct:1", "hello"), deliver("d1", "direct:1", "hello")])),
        ),
        ask("a question for people", after_start(json!([question]))),
        ask("a call of its webhook that nobody vouches for", after_start(json!([webhook]))),
        ask(
            "an agent begins its work",
            after_start(json!([{ "presence": { "target": "channel:7", "typing": true } }])),
        ),
        ask("it stops", after_start(json!(["stopping"]))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_a_world_is_asked_and_each_question_has_a_name_of_its_own() {
        for world in World::ALL {
            let asked = conformance(world);
            for export in world.exports() {
                assert!(asked.iter().any(|asked| asked.export == *export), "{export}");
            }
            assert!(asked.iter().all(|asked| world.exports().contains(&asked.export)));
            let mut names: Vec<&str> = asked.iter().map(|asked| asked.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
