//! Task files that people edit while the gateway works on them: nothing is lost, nothing is reverted.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use support::{TestDir, TestHost, eventually};

fn complete(host: &TestHost) -> Value {
    host.done("eden", "task_update", json!({ "action": "complete_step" }))
}

fn copies(dir: &TestDir) -> Vec<String> {
    dir.files().into_iter().filter(|name| name.contains(".conflict-")).collect()
}

#[test]
fn an_edit_by_hand_is_taken_up_and_shown() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let text = host.dir.task_text("eden", &id);
    let edited = text
        .replace("OAuth 로그인 구현", "OAuth 로그인을 두 곳에 구현")
        .replace("- [ ] (s2) b\n", "- [ ] (s2) b\n- [ ] 손으로 더한 단계\n")
        .replace("## Progress\n", "## 메모\n\n사람의 글\n\n## Progress\n");
    host.dir.save_task("eden", &id, &edited);
    let task = eventually("the edit is seen", || {
        let task = host.task(&id);
        (task["description"] == "OAuth 로그인을 두 곳에 구현").then_some(task)
    });
    assert_eq!(task["steps"][2], json!({ "id": "s3", "content": "손으로 더한 단계", "status": "pending", "order": 3 }));
    let told =
        eventually("the edit is told", || host.told("task.updated").into_iter().find(|told| told["source"] == "file"));
    assert_eq!(told["taskId"], json!(id));
    complete(&host);
    let text = host.dir.task_text("eden", &id);
    assert!(
        text.contains("- [x] (s1) a\n- [>] (s2) b\n- [ ] (s3) 손으로 더한 단계\n")
            && text.contains("## 메모\n\n사람의 글\n"),
        "{text}"
    );
}

#[test]
fn an_editor_that_opened_an_old_version_does_not_revert_what_came_after() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b", "c"]);
    let opened = host.dir.task_text("eden", &id);
    for _ in 0..2 {
        host.clock.advance(Duration::from_secs(1));
        complete(&host);
    }
    host.done("eden", "task_update", json!({ "progress": "도구가 적은 줄" }));
    let stale = opened
        .replace("OAuth 로그인 구현", "낡은 화면에서 고친 설명")
        .replace("- Task started\n", "- Task started\n- 손으로 적은 줄\n");
    host.dir.save_task_by_rename("eden", &id, &stale);
    let task = eventually("the edit is merged", || {
        let task = host.task(&id);
        (task["description"] == "낡은 화면에서 고친 설명").then_some(task)
    });
    let statuses: Vec<&Value> = task["steps"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["done", "done", "in_progress"]);
    let progress = task["progress"].as_array().expect("lines");
    for line in ["손으로 적은 줄", "[s1] a — 완료", "[s2] b — 완료", "도구가 적은 줄"] {
        assert_eq!(progress.iter().filter(|known| **known == line).count(), 1, "{line} in {progress:?}");
    }
    eventually("the file says it too", || {
        let text = host.dir.task_text("eden", &id);
        (text.contains("낡은 화면에서 고친 설명") && text.contains("- [x] (s2) b")).then_some(())
    });
    assert_eq!(copies(&host.dir), Vec::<String>::new());
}

#[test]
fn who_takes_back_an_own_edit_has_taken_it_back() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let before = host.dir.task_text("eden", &id);
    let ticked = before.replace("- [ ] (s2) b", "- [x] (s2) b");
    let second = |status: &str| (host.task(&id)["steps"][1]["status"] == status).then_some(());
    host.dir.save_task("eden", &id, &ticked);
    eventually("the tick is seen", || second("done"));
    host.dir.save_task("eden", &id, &before);
    eventually("it is taken back", || second("pending"));
    assert_eq!(host.dir.task_text("eden", &id), before);
    let kept = copies(&host.dir);
    assert_eq!(kept.len(), 1, "it may have been another's: {kept:?}");
    assert_eq!(fs::read_to_string(host.dir.state.path().join(&kept[0])).expect("there"), ticked);
}

#[test]
fn a_save_of_a_task_that_is_over_brings_nothing_back() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let opened = host.dir.task_text("eden", &id);
    host.clock.advance(Duration::from_secs(1));
    complete(&host);
    host.done("eden", "task_complete", json!({ "summary": "done" }));
    let next = host.begin("eden", &["b"]);
    host.dir.save_task_by_rename("eden", &id, &opened);
    let copy = eventually("it is kept aside", || copies(&host.dir).pop());
    assert_eq!(fs::read_to_string(host.dir.state.path().join(copy)).expect("there"), opened);
    let (_, tasks) = host.get("/api/agents/eden/tasks");
    let open: Vec<&Value> = tasks["tasks"].as_array().expect("a list").iter().map(|task| &task["id"]).collect();
    assert_eq!(open, [&json!(next)]);
}

#[test]
fn a_task_whose_file_was_taken_away_comes_back_with_it() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let text = host.dir.task_text("eden", &id);
    let is = |status: &str| (host.task(&id)["status"] == status).then_some(());
    host.clock.advance(Duration::from_secs(1));
    fs::rename(host.dir.task_file("eden", &id), host.dir.state.path().join("elsewhere")).expect("taken away");
    eventually("it is cancelled", || is("cancelled"));
    fs::rename(host.dir.state.path().join("elsewhere"), host.dir.task_file("eden", &id)).expect("put back");
    eventually("it goes on", || is("in_progress"));
    assert_eq!(host.dir.task_text("eden", &id), text);
    assert_eq!(copies(&host.dir), Vec::<String>::new());
}

#[test]
fn a_step_that_an_editor_shows_without_its_number_is_not_a_new_one() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let saved = host.dir.task_text("eden", &id).replace("- [>] (s1) a\n", "- [>] (s1) a\n- [ ] new\n");
    for more in ["", "\n", "\n\n"] {
        host.dir.save_task("eden", &id, &format!("{saved}{more}"));
        eventually("it is named", || host.dir.task_text("eden", &id).contains("- [ ] (s2) new").then_some(()));
    }
    assert_eq!(host.task(&id)["steps"].as_array().map(Vec::len), Some(2), "{}", host.dir.task_text("eden", &id));
}

#[test]
fn a_list_that_a_person_wrote_is_numbered_once() {
    let host = TestHost::start();
    let text = "# Task: task_by_hand\n\n## Metadata\n\n- **Status:** in_progress\n\n## Description\n\nBy hand\n\n## Steps\n\n- [>] a\n  a note\n- [ ] b\n";
    host.dir.save_task("eden", "task_by_hand", text);
    eventually("it is seen", || (host.get("/api/tasks/task_by_hand").0 == 200).then_some(()));
    complete(&host);
    let written = host.dir.task_text("eden", "task_by_hand");
    assert!(written.contains("- [x] (s1) a\n  a note\n- [>] (s2) b\n"), "{written}");
    host.dir.save_task("eden", "task_by_hand", &text.replace("By hand", "By both"));
    eventually("the edit is seen", || (host.task("task_by_hand")["description"] == "By both").then_some(()));
    let steps = host.task("task_by_hand")["steps"].clone();
    assert_eq!(steps.as_array().map(Vec::len), Some(2), "{steps}");
}

#[test]
fn what_cannot_be_merged_is_kept_beside_the_task_and_told() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let opened = host.dir.task_text("eden", &id);
    complete(&host);
    let first = host.dir.task_text("eden", &id).replace("OAuth 로그인 구현", "첫 사람");
    host.dir.save_task_by_rename("eden", &id, &first);
    eventually("the first edit is seen", || (host.task(&id)["description"] == "첫 사람").then_some(()));
    let second = opened.replace("OAuth 로그인 구현", "둘째 사람");
    host.dir.save_task_by_rename("eden", &id, &second);
    let copy = eventually("the second edit is kept aside", || copies(&host.dir).pop());
    assert_eq!(fs::read_to_string(host.dir.state.path().join(copy)).expect("there"), second);
    eventually("the file is put right", || host.dir.task_text("eden", &id).contains("첫 사람").then_some(()));
    let told = host.told("task.updated").into_iter().find(|told| told["action"] == "conflict").expect("told");
    assert_eq!(told["conflict"]["parts"], json!(["Description"]));
    assert_eq!(host.get("/api/agents/eden/tasks").1["tasks"].as_array().map(Vec::len), Some(1), "a copy is no task");
}

#[test]
fn edits_while_no_gateway_runs_are_merged_at_the_next_start() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let opened = host.dir.task_text("eden", &id);
    complete(&host);
    let dir = host.stop();
    dir.save_task("eden", &id, &opened.replace("OAuth 로그인 구현", "꺼진 동안"));
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let task = host.task(&id);
    assert_eq!((&task["description"], &task["stepsProgress"]["done"]), (&json!("꺼진 동안"), &json!(1)));
    assert!(host.dir.task_text("eden", &id).contains("- [x] (s1) a"));
}

#[test]
fn a_file_that_a_crash_left_behind_its_journal_is_written_at_the_next_start() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let before = host.dir.task_text("eden", &id);
    complete(&host);
    let after = host.dir.task_text("eden", &id);
    let dir = host.stop();
    dir.save_task("eden", &id, &before);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(host.dir.task_text("eden", &id), after);
    assert_eq!(
        host.told("task.updated").into_iter().filter(|told| told["source"] == "file").count(),
        0,
        "nobody edited it"
    );
}

#[test]
fn a_task_whose_file_is_taken_away_is_cancelled_and_its_text_kept() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    fs::remove_file(host.dir.task_file("eden", &id)).expect("removed");
    eventually("it is cancelled", || host.told("task.cancelled").pop());
    let over = eventually("it is shown as such", || Some(host.task(&id)).filter(|task| task["status"] == "cancelled"));
    assert_eq!(over["outcome"]["reason"], "its file was removed by hand");
    assert!(host.refused("eden", "task_update", json!({ "task_id": id, "progress": "x" })).contains("it is over"));
}

#[test]
fn a_new_file_by_hand_is_a_task_and_a_malformed_one_is_listed_with_its_line() {
    let host = TestHost::start();
    let good = "# Task: task_hand\n\n## Metadata\n- **Status:** pending\n\n## Description\n손으로 만든 일\n";
    host.dir.save_task("eden", "task_hand", good);
    host.dir.save_task(
        "eden",
        "task_bad",
        "# Task: task_bad\n\n## Metadata\n- **Status:** pending\n\n## Steps\n- [?] (s1) a\n",
    );
    fs::write(host.dir.task_file("eden", "task_bytes"), b"# Task: \xff\n").expect("written");
    let list = eventually("all three are listed", || {
        let (_, list) = host.get("/api/agents/eden/tasks");
        (list["tasks"].as_array().map(Vec::len) == Some(3)).then_some(list)
    });
    let of = |id: &str| {
        list["tasks"].as_array().expect("tasks").iter().find(|task| task["id"] == id).cloned().expect("listed")
    };
    assert_eq!(of("task_hand").get("problem"), None);
    assert_eq!(of("task_bad")["problem"], "line 7: the marker [?] means nothing; use [ ], [>], [x] or [-]");
    assert!(of("task_bytes")["problem"].as_str().is_some_and(|said| said.contains("byte 8 is not UTF-8")));
    let (status, refused) = host.invoke(
        &json!({ "tool": "task_update", "args": { "task_id": "task_bad", "progress": "x" }, "sessionKey": "eden" }),
    );
    assert_eq!((status, &refused["error"]["type"]), (500, &json!("tool_error")));
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|said| said.contains("line 7") && said.contains("mend the file")),
        "{refused}"
    );
    host.done("eden", "task_resume", json!({ "task_id": "task_hand" }));
    assert!(
        host.dir.task_text("eden", "task_hand").starts_with(
            &good
                .replace("pending", "in_progress")
                .replace("\n\n## Description", "\n- **Priority:** medium\n\n## Description")
        )
    );
    host.dir.save_task(
        "eden",
        "task_bad",
        "# Task: task_bad\n\n## Metadata\n- **Status:** pending\n\n## Steps\n- [x] (s1) a\n",
    );
    eventually("a mended file is a task", || host.task("task_bad").get("problem").is_none().then_some(()));
}

#[test]
fn a_task_called_done_by_hand_is_archived_like_any_other() {
    let host = TestHost::start();
    let id = host.begin("eden", &[]);
    let text = host.dir.task_text("eden", &id);
    host.dir.save_task_by_rename("eden", &id, &text.replace("in_progress", "completed"));
    eventually("it is archived", || (!host.dir.task_file("eden", &id).exists()).then_some(()));
    assert_eq!(host.task(&id)["status"], "completed");
    assert_eq!(host.told("task.completed").len(), 1);
}

#[test]
fn events_that_a_crash_kept_from_the_log_are_told_at_the_next_start_and_known_ones_once() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    complete(&host);
    let dir = host.stop();
    let lines = fs::read_to_string(dir.state.event_log()).expect("a log");
    assert_eq!(lines.matches("\"task.updated\"").count(), 1);
    // The journal says that all was told; without that note it tells again, with the same ids.
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let dir = host.stop();
    assert_eq!(fs::read_to_string(dir.state.event_log()).expect("a log").matches("\"task.updated\"").count(), 1);
    let event: Value = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .find(|event| event["type"] == "task.updated")
        .expect("told");
    assert_eq!(event["id"], json!(format!("task:eden/{id}:2")));
}

#[test]
fn a_save_that_cannot_be_read_is_listed_and_left_alone_until_it_is_mended() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let text = host.dir.task_text("eden", &id);
    for (broken, said) in [
        (text.replace("- [ ] (s2) b\n", "- [ ] (s2) b\n- [ ] (s2) copied\n"), "step s2 is there twice"),
        (text.replace("- **Status:** in_progress\n", ""), "there is no status"),
        (text.replace(&format!("# Task: {id}"), "# Task: task_other"), "the title says"),
    ] {
        host.dir.save_task_by_rename("eden", &id, &broken);
        let problem = eventually("it is listed", || host.task(&id)["problem"].as_str().map(str::to_owned));
        assert!(problem.contains(said), "{problem}");
        let (status, _) = host.invoke(
            &json!({ "tool": "task_update", "args": { "task_id": id, "progress": "x" }, "sessionKey": "eden" }),
        );
        assert_eq!(status, 500);
        assert_eq!(host.dir.task_text("eden", &id), broken, "nobody touches it");
        host.dir.save_task_by_rename("eden", &id, &text);
        eventually("it is mended", || host.task(&id).get("problem").is_none().then_some(()));
    }
    complete(&host);
    assert_eq!(copies(&host.dir), Vec::<String>::new());
}

#[test]
fn a_file_that_is_seen_while_it_is_being_made_is_taken_as_it_is_in_the_end() {
    let host = TestHost::start();
    let whole = "# Task: task_slow\n\n## Metadata\n\n- **Status:** pending\n\n## Description\n\n천천히\n\n## Steps\n\n- [ ] (s1) a\n\n## Last Activity\n\n2026-02-13T12:30:00.000Z\n";
    host.dir.save_task("eden", "task_slow", "");
    std::thread::sleep(Duration::from_millis(150));
    host.dir.save_task("eden", "task_slow", &whole[..40]);
    std::thread::sleep(Duration::from_millis(250));
    host.dir.save_task("eden", "task_slow", whole);
    let task =
        eventually("it is a task", || Some(host.get("/api/tasks/task_slow").1).filter(|task| task["steps"].is_array()));
    assert_eq!((&task["description"], task.get("problem")), (&json!("천천히"), None));
    assert_eq!(host.dir.task_text("eden", "task_slow"), whole);
    assert_eq!(copies(&host.dir), Vec::<String>::new());
}

#[test]
fn a_task_that_a_person_ends_makes_room_for_the_next_and_for_those_that_waited() {
    let host = TestHost::start();
    let first = host.begin("eden", &[]);
    let next =
        host.done("eden", "task_start", json!({ "description": "다음" }))["taskId"].as_str().expect("an id").to_owned();
    let waiting = host.done("seum", "task_start", json!({ "description": "뒤", "depends_on": [first] }));
    let text = host.dir.task_text("eden", &first);
    host.dir.save_task("eden", &first, &text.replace("in_progress", "completed"));
    eventually("the next one starts", || (host.task(&next)["status"] == "in_progress").then_some(()));
    let waiting = waiting["taskId"].as_str().expect("an id").to_owned();
    eventually("what waited starts", || (host.task(&waiting)["status"] == "in_progress").then_some(()));
}

#[test]
fn one_file_that_cannot_be_taken_up_holds_up_neither_a_start_nor_the_others() {
    use std::os::unix::fs::PermissionsExt;
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let dir = host.stop();
    let text = dir.task_text("eden", &id);
    // A step without an id is to be given one, and the file may not be written.
    dir.save_task("eden", &id, &text.replace("(s1) a\n", "(s1) a\n- [ ] new\n"));
    fs::set_permissions(dir.task_file("eden", &id), fs::Permissions::from_mode(0o400)).expect("ours");
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    let pipe = host.dir.task_file("eden", "task_pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .expect("a pipe");
    host.dir.save_task("eden", "task_zz", "# Task: task_zz\n\n## Metadata\n- **Status:** backlog\n");
    eventually("the other file is seen", || (host.get("/api/tasks/task_zz").0 == 200).then_some(()));
    host.done("eden", "task_update", json!({ "task_id": "task_zz", "progress": "x" }));
    fs::remove_file(pipe).expect("removed");
}
