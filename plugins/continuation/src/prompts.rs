//! The built-in prompts, one for each layer; English, as they are for models.
//! Keeps true: a task's own words stay as they are, in whatever language. Never: reads a placeholder.

#[cfg(test)]
mod tests;

use chela_sdk::continuation::Layer;

use crate::facts::Facts;

pub fn built_in(facts: &Facts) -> String {
    let mut prompt = match facts.layer {
        Layer::SelfDriving => self_driving(facts),
        Layer::EventBased => event_based(facts),
        Layer::Unblock => unblock(facts),
        Layer::Backlog => backlog(facts),
        Layer::Zombie => zombie(facts),
        Layer::Polling | Layer::Other => polling(facts),
    };
    if !facts.error.is_empty() {
        let times = if facts.same_error > 1 { format!(" {} times in a row", facts.same_error) } else { String::new() };
        prompt.push_str(&format!(
            "\n\nThe last run ended with an error{times}: {}\nTry another way around it.",
            facts.error
        ));
    }
    prompt
}

fn self_driving(facts: &Facts) -> String {
    let Facts { task, steps, remaining, count, max, .. } = facts;
    let start = match &facts.current {
        Some(current) => format!("**Continue: {current}**"),
        None => "**Start the next pending step.**".to_owned(),
    };
    format!(
        r#"[SYSTEM — SELF-DRIVING LOOP {count}/{max}]

Task "{task}" — {remaining} steps remaining:

{steps}

{start}

Rules:
- Complete the current step, then call task_update(action: "complete_step")
- Proceed immediately to the next step — do NOT stop
- If blocked, call task_update(action: "skip_step") and move on
- Only call task_complete when ALL steps are done"#
    )
}

fn event_based(facts: &Facts) -> String {
    let Facts { task, .. } = facts;
    let open_steps = open_steps(facts);
    format!("[SYSTEM REMINDER - STEP CONTINUATION]\n\nTask \"{task}\" has incomplete steps:\n\n{open_steps}")
}

fn polling(facts: &Facts) -> String {
    let Facts { task, idle, steps, remaining, .. } = facts;
    let rest = if *remaining > 0 {
        format!("has incomplete steps:\n\n{}\nIf you cannot go on, call task_block and say why.", open_steps(facts))
    } else if steps.is_empty() {
        r#"is not finished and has no steps.

Continue it now; if it takes three steps or more, set them first with task_update(action: "set_steps", steps: [...]).
If it is done, call task_complete. If you cannot go on, call task_block and say why."#
            .to_owned()
    } else {
        format!(
            r#"is not finished, though none of its steps is open:

{steps}

If it is done, call task_complete. If work is left, add it with task_update(action: "add_step", step_content: "...") and continue.
If you cannot go on, call task_block and say why."#
        )
    };
    format!("[SYSTEM REMINDER - TASK CONTINUATION]\n\nYou have been idle for {idle}. Task \"{task}\" {rest}")
}

/// The checklist, where to go on, and how to record it.
fn open_steps(facts: &Facts) -> String {
    let Facts { steps, .. } = facts;
    let start = match &facts.current {
        Some(current) => format!("Continue from: **{current}**"),
        None => "Start the next pending step.".to_owned(),
    };
    format!(
        r#"{steps}

{start}

Use task_update(action: "complete_step", step_id: "...") when each step is done.
Do NOT call task_complete until all steps are done."#
    )
}

fn unblock(facts: &Facts) -> String {
    let Facts { id, task, owner, kind, reason, count, max, .. } = facts;
    let action = if facts.action.is_empty() { "not stated; find out what would unblock it" } else { &*facts.action };
    format!(
        r#"[SYSTEM REMINDER - UNBLOCK REQUEST]

Agent "{owner}" cannot go on with task "{task}" ({id}), and you can help. This is request {count} of {max}.

Kind: {kind}
Reason: {reason}
Action wanted: {action}

Do it now, then tell "{owner}" that the task can go on.
If you cannot, tell "{owner}" why and who can."#
    )
}

fn backlog(facts: &Facts) -> String {
    let Facts { id, task, steps, .. } = facts;
    let plan = if steps.is_empty() {
        r#"- Set its steps first: task_update(action: "set_steps", steps: [...])"#
    } else {
        "- Go through its steps, and change them where they no longer fit"
    };
    let steps = section(steps);
    format!(
        r#"[SYSTEM REMINDER - BACKLOG]

You were idle, and task "{task}" ({id}) of your backlog is in progress now.
{steps}
Work on it now:
{plan}
- Proceed from step to step — do NOT stop before all steps are done"#
    )
}

fn zombie(facts: &Facts) -> String {
    let Facts { id, task, idle, steps, .. } = facts;
    let steps = section(steps);
    format!(
        r#"[SYSTEM REMINDER - NO ACTIVITY]

Task "{task}" ({id}) has had no activity for {idle}.
{steps}
Decide now:
- Continue it: do the next step and record it with task_update
- Block it: call task_block and say what it waits for
- Cancel it: call task_cancel and say why

If nothing happens, the task will be abandoned."#
    )
}

/// A paragraph of its own, or nothing.
fn section(steps: &str) -> String {
    if steps.is_empty() { String::new() } else { format!("\n{steps}\n") }
}
