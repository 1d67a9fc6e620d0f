//! Jobs from the shell: seen, steered, begun and followed.

use super::*;

#[test]
fn jobs_are_seen_and_steered_from_the_shell() {
    let host = host();
    let run = |arguments: &[&str]| support::chela(&host.dir.state, arguments);
    assert_eq!(run(&["jobs"]).stdout, "no such jobs\n");
    let spawned = run(&["spawn", "eden", "slow", "thing", "--label", "mine"]);
    assert_eq!(spawned.code, Some(0), "{spawned:?}");
    assert!(spawned.stdout.contains("agent:eden:subagent:"), "{}", spawned.stdout);
    let listed = run(&["jobs", "--json"]).json();
    let id = listed["jobs"][0]["jobId"].as_str().expect("a job").to_owned();
    let text = run(&["jobs", "--status", "pending,running"]).stdout;
    assert!(text.contains(&id) && text.contains("eden (sub)") && text.contains("slow thing"), "{text}");
    let shown = run(&["jobs", "show", &id]).stdout;
    assert!(shown.contains("turn 0 to eden (sub)") && shown.contains("work session ws_"), "{shown}");
    let cancelled = run(&["jobs", "cancel", &id]);
    assert!(cancelled.stdout.contains("CANCELLED"), "{cancelled:?}");
    assert_eq!(run(&["jobs", "show", "gone"]).code, Some(1));
    assert_eq!(run(&["jobs", "retry", &id]).code, Some(0));
    let metrics = || String::from_utf8_lossy(&host.request("GET", "/metrics", &[], b"").body).into_owned();
    host.eventually("jobs are counted as they stand", || {
        let text = metrics();
        let counted = |status: &str, count: u32| text.contains(&format!("chela_jobs{{status=\"{status}\"}} {count}\n"));
        (counted("CANCELLED", 1) && counted("RUNNING", 1) && counted("PENDING", 0)).then_some(())
    });
    assert!(metrics().contains("chela_job_retries_total 0\n"), "a job that is taken up is no further try");
}

#[test]
fn one_agent_speaks_to_another_from_the_shell() {
    let host = host();
    let run = |arguments: &[&str]| support::chela(&host.dir.state, arguments);
    let answered = run(&["send", "seum", "hello", "there", "--from", "eden", "--wait"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert!(answered.stdout.starts_with("did: ") && answered.stdout.contains("hello there"), "{answered:?}");
    let jobs = host.call("jobs.list", json!({})).expect("a list")["jobs"].clone();
    assert_eq!(
        (&jobs[0]["sessionKey"], &jobs[0]["targetSessionKey"]),
        (&json!("agent:eden:main"), &json!("agent:seum:main"))
    );
    let accepted = run(&["send", "seum", "more", "--from", "eden", "--key", "more-1"]);
    assert!(accepted.code == Some(0) && accepted.stdout.starts_with("accepted as job "), "{accepted:?}");
    let again = run(&["send", "seum", "more", "--from", "eden", "--key", "more-1"]);
    assert_eq!(again.stdout, accepted.stdout, "the same key is the same message");
    let own = run(&["send", "seum", "hello", "--from", "seum"]);
    assert!(own.code == Some(1) && own.stdout.contains("your own session"), "{own:?}");
}

/// `chela jobs --follow`, with what it has printed so far.
struct Following {
    child: std::process::Child,
    said: std::path::PathBuf,
}

impl Following {
    fn start(host: &TestHost, name: &str, arguments: &[&str]) -> Self {
        let said = host.dir.scratch().join(name);
        let mut command = support::chela_command(&host.dir.state);
        command.args(["jobs", "--follow", "--json"]).args(arguments);
        let child = command.stdout(fs::File::create(&said).expect("a file")).spawn().expect("the binary runs");
        Self { child, said }
    }

    fn types(&self) -> Vec<String> {
        let said = fs::read_to_string(&self.said).expect("readable");
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let kind = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["type"].as_str().map(str::to_owned);
        whole.lines().filter_map(kind).collect()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_happens_to_jobs_is_followed_from_the_shell() {
    let host = host();
    let first = host.send_job("eden", "seum", "hello");
    host.job_ended(&first);
    let (all, failed) =
        (Following::start(&host, "all", &[]), Following::start(&host, "failed", &["--status", "FAILED"]));
    host.eventually("what was before is told", || (all.types() == ["job.created", "job.completed"]).then_some(()));
    let second = host.send_job("eden", "seum", "broken");
    host.job_ended(&second);
    let expected = ["job.created", "job.completed", "job.created", "job.failed"];
    host.eventually("what comes is told", || (all.types() == expected).then_some(()));
    host.eventually("only what leads there", || (failed.types() == ["job.failed"]).then_some(()));
    let refused = support::chela(&host.dir.state, &["jobs", "--follow", "--agent", "eden"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}
