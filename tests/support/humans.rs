//! Questions to people, as a test sees them.

use serde_json::{Value, json};

use crate::TestHost;

impl TestHost {
    /// Open questions, the newest first.
    pub fn questions(&self) -> Vec<Value> {
        self.call("human.pending", json!({})).expect("a list")["questions"].as_array().expect("questions").clone()
    }

    /// Waits until so many questions are open and their tasks wait.
    pub fn asked(&self, count: usize) -> Vec<Value> {
        self.eventually("questions are open", || {
            let open = self.questions();
            (open.len() == count && open.iter().all(|question| question["phase"] == "open")).then_some(open)
        })
    }

    pub fn question(&self, id: &str) -> Value {
        self.call("human.get", json!({ "id": id })).expect("a question")["question"].clone()
    }

    /// Waits until everything that an answer sets going is under way.
    pub fn settled(&self, id: &str) -> Value {
        self.eventually("a question is settled", || Some(self.question(id)).filter(|one| one["phase"] == "done"))
    }

    /// What the log says of a task and of its questions, in order, each once.
    pub fn told_of_task(&self, task: &str) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let events = self.events();
        let of_task = |event: &&Value| event["data"]["taskId"] == task && seen.insert(event["id"].to_string());
        events.iter().filter(of_task).map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
    }

    /// The texts of a session, each with who says it.
    pub fn said(&self, session: &str) -> Vec<String> {
        let row =
            |row: &Value| format!("{}: {}", row["role"].as_str().unwrap_or_default(), chela::sessions::text_of(row));
        self.history(session).iter().filter(|row| row["role"] != "toolResult").map(row).collect()
    }
}
