//! Flows between agents one by one, as data: `tests/fixtures/flows.json` says what is sent by which script, what is told of it and how it ends.
//! The clock is a manual one, the gateway and its files are real.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::{TestDir, TestHost, eventually};

use super::jobs_flows::told_of;

const NOW: u64 = 1_700_000_000_000;

/// One test for each flow of the file.
macro_rules! flows {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*

        #[test]
        fn every_flow_of_the_file_has_its_test() {
            let mut named = vec![$(stringify!($name)),*];
            named.sort_unstable();
            let file = file();
            let mut written: Vec<&str> = file["flows"].as_object().expect("flows").keys().map(String::as_str).collect();
            written.sort_unstable();
            assert_eq!(named, written);
        }
    };
}

flows! {
    a_new_job_has_a_file_of_its_own
    a_new_job_runs_right_away
    a_turn_that_is_answered_moves_the_current_turn
    a_flow_that_ends_well_is_completed
    a_flow_that_fails_is_failed_with_its_last_error
    only_pending_and_running_jobs_are_unfinished
    a_start_without_unfinished_jobs_does_nothing
    a_job_of_another_writer_that_ran_for_less_than_an_hour_is_resumed
    a_job_of_another_writer_that_ran_for_more_than_an_hour_is_abandoned
    a_job_of_another_writer_that_completed_is_left_alone
    a_job_of_another_writer_that_failed_is_left_alone
    a_job_that_is_resumed_counts_it
    a_job_lives_through_a_restart_from_its_file_to_its_end
    an_asynchronous_send_is_accepted_at_once_and_all_of_it_is_told
    a_synchronous_send_within_its_time_gives_the_reply_and_all_of_it_is_told
    a_synchronous_send_past_its_time_goes_on_and_all_of_it_is_told
    a_run_that_takes_more_than_three_hundred_seconds_is_blocked
    asynchronous_sends_are_worked_on_in_parallel
    an_exchange_has_at_most_five_turns
    an_exchange_has_as_many_turns_as_the_configuration_allows
    without_turns_in_the_configuration_there_is_one_answer
    reply_skip_ends_an_exchange_at_once
    a_notification_is_answered_and_not_discussed
    what_needs_no_reply_is_not_discussed
    what_came_of_an_exchange_is_announced
    announce_skip_tells_nobody
    without_a_channel_the_announcement_says_so
}

fn file() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/flows.json");
    serde_json::from_slice(&fs::read(path).expect("readable")).expect("JSON")
}

fn run(name: &str) {
    let file = file();
    let flow = &file["flows"][name];
    let script = &file["scripts"][text(flow, "script")];
    assert!(script.is_object() && flow["steps"].is_array(), "{name} is a flow with a script");
    let mut player = Player::start(flow, script);
    for step in flow["steps"].as_array().into_iter().flatten() {
        player.play(step);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} of {value} is a text"))
}

fn configured(config: &mut Value, flow: &Value) {
    config["providers"]["demo"]["retries"] = json!(0);
    // Runs that wait for the clock are not waited for at a stop.
    config["limits"]["drainTimeoutMs"] = json!(0);
    for agent in config["agents"]["list"].as_array_mut().expect("a team") {
        agent["role"] = json!("agent");
        if flow["worker"] == json!(true) {
            match agent["id"].as_str() {
                Some("ruda") => agent["role"] = json!("orchestrator"),
                Some("seum") => agent["role"] = json!("worker"),
                _ => {}
            }
        }
    }
    merge(config, &flow["config"]);
}

fn merge(into: &mut Value, from: &Value) {
    match from {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(key, value)| merge(&mut into[key], value)),
        value => *into = value.clone(),
    }
}

/// Whether `value` says everything that `expected` says. Of a list the beginning counts.
fn says(value: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(key, expected)| says(&value[key], expected)),
        Value::Array(rows) => rows.iter().enumerate().all(|(at, expected)| says(&value[at], expected)),
        expected => value == expected,
    }
}

struct Player {
    /// None only while it starts again.
    host: Option<TestHost>,
    /// The job that was made last.
    job: String,
}

impl Player {
    fn start(flow: &Value, script: &Value) -> Self {
        let dir = TestDir::scripted(&script.to_string(), |config| configured(config, flow));
        let mut job = String::new();
        for (id, facts) in flow["files"].as_object().into_iter().flatten() {
            let at = NOW - facts["minutes_ago"].as_u64().expect("minutes") * 60_000;
            let record = json!({
                "jobId": id, "runId": id, "status": facts["status"], "sessionKey": "eden", "targetSessionKey": "seum",
                "conversationId": "conv-1", "message": "from before", "maxTurns": 5, "currentTurn": facts["currentTurn"],
                "retryCount": 0, "maxRetries": 3, "createdAt": at, "updatedAt": at, "resumeCount": 0,
            });
            fs::create_dir_all(dir.state.jobs()).expect("made");
            fs::write(dir.state.jobs().join(format!("job-{id}.json")), record.to_string()).expect("written");
            job.clone_from(id);
        }
        let host = TestHost::start_at(dir, NOW).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
        Self { host: Some(host), job }
    }

    fn host(&self) -> &TestHost {
        self.host.as_ref().expect("it serves")
    }

    fn play(&mut self, step: &Value) {
        let fields = step.as_object().expect("a step");
        let (what, with) = fields.iter().find(|(key, _)| *key != "answers").expect("something to do");
        match what.as_str() {
            "send" => self.send(with, &step["answers"]),
            "restart" => self.restart(),
            "until" => {
                drop(self.host().eventually("the job gets there", || self.found().filter(|job| says(job, with))))
            }
            "ends" => {
                let ended = |job: &Value| !job["finishedAt"].is_null();
                let job = self.host().eventually("the job ends", || {
                    self.host().clock.advance(Duration::from_millis(500));
                    self.found().filter(ended)
                });
                assert!(says(&job, with), "{with} is not said by {job:#}");
            }
            "told" => {
                let count = with.as_array().expect("a list").len();
                assert_eq!(json!(told_of(self.host(), &self.job, count)), *with);
            }
            "listed" => assert_eq!(json!(self.listed(with)), with["count"], "{with}"),
            "until_listed" => self
                .host()
                .eventually("so many are listed", || (json!(self.listed(with)) == with["count"]).then_some(())),
            "file" => self.shown(&self.host().dir.state.jobs(), with),
            "day_file" => {
                let at = self.found().expect("the job")["finishedAt"].as_u64().expect("it has ended");
                let day = chela::clock::Timestamp(at).date().to_string();
                self.shown(&self.host().dir.state.jobs().join("done").join(day), with);
            }
            "error_says" => {
                let said = self.found().expect("the job")["lastError"].to_string();
                assert!(said.contains(with.as_str().expect("words")), "{said}");
            }
            "response_says" => {
                let response =
                    self.host().told("a2a.response").into_iter().find(|data| data["jobId"] == json!(self.job));
                assert_eq!(response.expect("told")["replyPreview"], *with);
            }
            "asked" => assert_eq!(json!(self.asked(text(with, "agent"))), with["messages"]),
            "hears" => drop(self.host().eventually("it is heard", || {
                let asked = self.asked(text(with, "agent"));
                asked.into_iter().find(|said| said.contains(text(with, "text")))
            })),
            other => panic!("nobody knows how to {other}"),
        }
    }

    fn send(&mut self, with: &Value, answers: &Value) {
        let from = with["from"].as_str().unwrap_or("eden");
        let args = json!({
            "agentId": with["to"].as_str().unwrap_or("seum"), "message": with["message"], "timeoutSeconds": with["timeoutSeconds"],
        });
        // Whoever waits waits by the clock; whoever does not is answered without it.
        let (clock, waits) = (self.host().clock.clone(), with["timeoutSeconds"] != json!(0));
        let answered = Arc::new(AtomicBool::new(!waits));
        let done = answered.clone();
        let moving = std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                clock.advance(Duration::from_millis(50));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let answer = self.host().tool(from, "sessions_send", args);
        answered.store(true, Ordering::Relaxed);
        moving.join().expect("it moved the clock");
        assert!(says(&answer, answers), "{answers} is not said by {answer}");
        self.job = text(&answer, "runId").to_owned();
    }

    fn restart(&mut self) {
        let host = self.host.take().expect("it serves");
        let now = host.clock.now().0;
        let host = TestHost::start_at(host.stop(), now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"));
        self.host = Some(host);
    }

    fn found(&self) -> Option<Value> {
        self.host().call("jobs.get", json!({ "id": self.job })).ok().map(|found| found["job"].clone())
    }

    fn listed(&self, with: &Value) -> usize {
        let page = self.host().call("jobs.list", json!({ "status": with["status"], "limit": 500 })).expect("a list");
        page["jobs"].as_array().expect("jobs").len()
    }

    /// The file of the job, in a folder, comes to say this.
    fn shown(&self, folder: &std::path::Path, expected: &Value) {
        let path = folder.join(format!("job-{}.json", self.job));
        eventually("the file says it", || {
            let file: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            says(&file, expected).then_some(())
        });
    }

    /// What an agent's main session was asked.
    fn asked(&self, agent: &str) -> Vec<String> {
        let rows = self.host().history(agent);
        rows.iter().filter(|row| row["role"] == "user").map(chela::sessions::text_of).collect()
    }
}
