//! Tasks as people read them in a terminal.

use serde_json::Value;

use crate::cli::output::{fit, table, word, words};

const WIDE: usize = 120;

/// A line for each task; where it is narrow, the ids stand on lines of their own.
pub(super) fn list(list: &Value, columns: Option<usize>) -> String {
    let tasks = list["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if tasks.is_empty() {
        return "no such tasks".into();
    }
    let wide = columns.is_none_or(|columns| columns >= WIDE);
    let mut rows = vec![["AGENT", "STATUS", "PRIORITY", "STEPS", "DESCRIPTION"].map(str::to_owned).to_vec()];
    for task in tasks {
        let description = match task["problem"].as_str() {
            Some(problem) => format!("! {problem}"),
            None => first_line(&task["description"]),
        };
        let row = [
            word(&task["agentId"]),
            word(&task["status"]),
            word(&task["priority"]),
            steps_done(task),
            fit(&description, 60),
        ];
        rows.push(row.to_vec());
    }
    if wide {
        rows[0].push("ID".into());
        for (row, task) in rows.iter_mut().skip(1).zip(tasks) {
            row.push(word(&task["id"]));
        }
    }
    let text = table(&rows);
    let mut lines = text.lines();
    let mut shown: Vec<String> = lines.next().map(str::to_owned).into_iter().collect();
    for (line, task) in lines.zip(tasks) {
        shown.push(columns.filter(|_| !wide).map_or_else(|| line.to_owned(), |columns| fit(line, columns)));
        if !wide {
            shown.push(format!("  {}", word(&task["id"])));
        }
    }
    let total = list["total"].as_u64().unwrap_or(0);
    if total > tasks.len() as u64 {
        shown.push(format!("{} of {total}; more with --limit", tasks.len()));
    }
    shown.join("\n")
}

fn first_line(text: &Value) -> String {
    text.as_str().and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
}

fn steps_done(task: &Value) -> String {
    let count = |key: &str| task["stepsProgress"][key].as_u64();
    match (count("done"), count("skipped"), count("total")) {
        (Some(done), Some(skipped), Some(total)) => format!("{}/{total}", done + skipped),
        _ => "-".into(),
    }
}

/// One task with all that is known of it.
pub(super) fn task(task: &Value) -> String {
    let mut rows = Vec::new();
    let labels = [
        ("status", "status"),
        ("priority", "priority"),
        ("agent", "agentId"),
        ("created", "created"),
        ("last activity", "lastActivity"),
        ("created by", "createdBy"),
        ("assignee", "assignee"),
        ("work session", "workSessionId"),
        ("after", "previousWorkSessionId"),
        ("due", "dueDate"),
        ("effort", "estimatedEffort"),
        ("milestone item", "milestoneItemId"),
        ("blocked", "blockedReason"),
        ("by", "blockedKind"),
        ("action", "unblockedAction"),
        ("problem", "problem"),
    ];
    for (name, key) in labels {
        let value = word(&task[key]);
        if !value.is_empty() {
            rows.push(vec![name.to_owned(), value]);
        }
    }
    for (name, key) in [("waits for", "dependsOn"), ("unblocked by", "unblockedBy")] {
        if task[key].is_array() {
            rows.push(vec![name.to_owned(), words(&task[key])]);
        }
    }
    if task["outcome"].is_object() {
        let said = [&task["outcome"]["summary"], &task["outcome"]["reason"]].map(word).concat();
        rows.push(vec!["outcome".into(), format!("{} {said}", word(&task["outcome"]["kind"])).trim().to_owned()]);
    }
    let mut parts = vec![word(&task["id"]), task["description"].as_str().unwrap_or_default().to_owned(), table(&rows)];
    let marker = |status: &str| match status {
        "done" => "✅",
        "in_progress" => "▶",
        "skipped" => "⏭",
        _ => "□",
    };
    let steps: Vec<String> = task["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| {
            format!(
                "{} ({}) {}",
                marker(step["status"].as_str().unwrap_or_default()),
                word(&step["id"]),
                word(&step["content"])
            )
        })
        .collect();
    parts.extend((!steps.is_empty()).then(|| steps.join("\n")));
    let progress: Vec<String> =
        task["progress"].as_array().into_iter().flatten().map(|line| format!("- {}", word(line))).collect();
    parts.extend((!progress.is_empty()).then(|| progress.join("\n")));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// What a tool answered.
pub(super) fn answer(answer: &Value, columns: Option<usize>) -> String {
    if answer["task"].is_object() {
        return task(&answer["task"]);
    }
    if answer["tasks"].is_array() {
        return list(answer, columns);
    }
    if answer["milestones"].is_array() {
        return milestones(answer);
    }
    if answer["todos"].is_array() {
        return marks(&answer["todos"], "");
    }
    for key in ["milestone", "item", "todo"] {
        if answer[key].is_object() {
            return format!(
                "{} {} {}",
                word(&answer[key]["id"]),
                word(&answer[key]["status"]),
                word(&answer[key]["title"])
            );
        }
    }
    let id = [&answer["taskId"], &answer["planId"]].map(word).concat();
    let mut lines = vec![format!("{id} {}: {}", word(&answer["status"]), word(&answer["message"]))];
    for (name, key) in [("warning", "warning"), ("started", "nextTaskId")] {
        let value = word(&answer[key]);
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    }
    lines.join("\n")
}

/// Why a tool refused, and what to do instead.
pub(super) fn refusal(answer: &Value) -> String {
    let mut lines = vec![format!("chela: {}", word(&answer["error"]))];
    for step in answer["remaining_steps"].as_array().into_iter().flatten() {
        lines.push(format!("  ({}) {} [{}]", word(&step["id"]), word(&step["content"]), word(&step["status"])));
    }
    lines.extend(answer["instructions"].as_array().into_iter().flatten().map(|line| format!("  {}", word(line))));
    lines.join("\n")
}

fn marks(list: &Value, indent: &str) -> String {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return format!("{indent}none");
    }
    let row = |row: &Value| format!("{indent}{}  {}  {}", word(&row["id"]), word(&row["status"]), word(&row["title"]));
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

fn milestones(answer: &Value) -> String {
    let rows = answer["milestones"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return "no milestones".into();
    }
    let row = |row: &Value| {
        let head = format!("{}  {}  {}", word(&row["id"]), word(&row["status"]), word(&row["title"]));
        format!("{head}\n{}", marks(&row["items"], "  "))
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

pub(super) fn plans(answer: &Value) -> String {
    let plans = answer["plans"].as_array().map(Vec::as_slice).unwrap_or_default();
    if plans.is_empty() {
        return "no plans".into();
    }
    let row = |plan: &Value| vec![word(&plan["id"]), word(&plan["status"]), word(&plan["taskId"])];
    table(&plans.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn tools(document: &Value) -> String {
    let tools = document["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |tool: &Value| vec![word(&tool["name"]), word(&tool["description"])];
    table(&tools.iter().map(row).collect::<Vec<_>>())
}
