//! Working on tasks through the gateway's door, and on their files as people do.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{TestDir, TestHost};

impl TestHost {
    /// What a tool answers when an agent's main session calls it.
    pub fn tool(&self, agent: &str, tool: &str, args: Value) -> Value {
        let (status, answer) =
            self.invoke(&json!({ "tool": tool, "args": args, "sessionKey": format!("agent:{agent}") }));
        assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{tool}: {answer}");
        answer["result"]["details"].clone()
    }

    /// Like [`TestHost::tool`] for a call that must succeed.
    pub fn done(&self, agent: &str, tool: &str, args: Value) -> Value {
        let answer = self.tool(agent, tool, args);
        assert_eq!(answer["success"], true, "{tool}: {answer}");
        answer
    }

    /// What a tool says when it must refuse.
    pub fn refused(&self, agent: &str, tool: &str, args: Value) -> String {
        let answer = self.tool(agent, tool, args);
        assert_eq!(answer["success"], false, "{tool}: {answer}");
        answer["error"].as_str().unwrap_or_default().to_owned()
    }

    /// `POST /tools/invoke`.
    pub fn invoke(&self, body: &Value) -> (u16, Value) {
        let answer = self.request("POST", "/tools/invoke", &[], body.to_string().as_bytes());
        (answer.status, answer.json())
    }

    /// Begins a task with these steps and gives its id.
    pub fn begin(&self, agent: &str, steps: &[&str]) -> String {
        let steps: Vec<Value> = steps.iter().map(|content| json!({ "content": content })).collect();
        let started = self.done(agent, "task_start", json!({ "description": "OAuth 로그인 구현", "steps": steps }));
        started["taskId"].as_str().expect("an id").to_owned()
    }

    /// An open or finished task as the monitor shows it.
    pub fn task(&self, id: &str) -> Value {
        let (status, task) = self.get(&format!("/api/tasks/{id}"));
        assert_eq!(status, 200, "{task}");
        task
    }
}

impl TestDir {
    pub fn task_file(&self, agent: &str, id: &str) -> PathBuf {
        self.state.path().join(format!("workspace-{agent}/tasks/{id}.md"))
    }

    pub fn task_text(&self, agent: &str, id: &str) -> String {
        fs::read_to_string(self.task_file(agent, id)).expect("a task file")
    }

    /// Saves a task file as an editor does that writes in place.
    pub fn save_task(&self, agent: &str, id: &str, text: &str) {
        fs::write(self.task_file(agent, id), text).expect("saved");
    }

    /// Saves a task file as an editor does that writes beside it and renames.
    pub fn save_task_by_rename(&self, agent: &str, id: &str, text: &str) {
        let path = self.task_file(agent, id);
        let beside = path.with_extension("md.swp");
        fs::write(&beside, text).expect("written");
        fs::rename(&beside, &path).expect("renamed");
    }
}
