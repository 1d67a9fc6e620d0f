//! The rules of markers and of questions, one case a line.

use crate::*;

#[track_caller]
fn check(text: &str, questions: &[&str], visible: &str) {
    let parsed = parse_human_query(text);
    assert_eq!(parsed.questions, questions, "{text:?}");
    assert_eq!(parsed.visible, visible, "{text:?}");
}

#[test]
fn a_marker_at_a_lines_start_is_a_question() {
    check("[NEED_HUMAN: Which port?]", &["Which port?"], "");
    check("I looked.\n[NEED_HUMAN: Which port?]\n", &["Which port?"], "I looked.");
    check("I looked.\n\n  [NEED_HUMAN:Which port?]\nThen I go on.", &["Which port?"], "I looked.\n\nThen I go on.");
    check("[NEED_HUMAN: 어느 포트로 할까요?]\n\n기다립니다.", &["어느 포트로 할까요?"], "기다립니다.");
    check("[NEED_HUMAN: one of\n- a\n- b]\nrest", &["one of\n- a\n- b"], "rest");
    check("[NEED_HUMAN: which?] Thanks!", &["which?"], "Thanks!");
    check("a\r\n[NEED_HUMAN: which?]\r\nb", &["which?"], "a\r\nb");
}

#[test]
fn brackets_within_a_question_are_a_part_of_it() {
    check("[NEED_HUMAN: a[0] or b[1][2]?]", &["a[0] or b[1][2]?"], "");
    check("[NEED_HUMAN: a\n[NEED_HUMAN: b]\nc]", &["a\nc", "b"], "");
    check("[NEED_HUMAN: see [NEED_HUMAN: x] there]", &["see [NEED_HUMAN: x] there"], "");
}

#[test]
fn several_markers_are_several_questions_and_five_count() {
    check("[NEED_HUMAN: a]\ntext\n[NEED_HUMAN: b][NEED_HUMAN: c] tail", &["a", "b", "c"], "text\ntail");
    let hundred: String = (1..=100).map(|n| format!("[NEED_HUMAN: question {n}]\n")).collect();
    let parsed = parse_human_query(&format!("Before.\n{hundred}After."));
    assert_eq!((parsed.questions.len(), parsed.left_out, parsed.visible.as_str()), (5, 95, "Before.\nAfter."));
    assert_eq!(parsed.questions[4], "question 5");
    assert!(numbered(&parsed.questions, parsed.left_out).starts_with("1. question 1\n2. question 2\n"));
    assert!(numbered(&parsed.questions, parsed.left_out).contains("95 further"));
}

#[test]
fn code_and_quotes_ask_nothing() {
    for text in [
        "```\n[NEED_HUMAN: x]\n```",
        "```text\n[NEED_HUMAN: x]",
        "~~~\n[NEED_HUMAN: x]\n~~~~\n",
        "````\n```\n[NEED_HUMAN: x]\n```\n````",
        "> [NEED_HUMAN: x]",
        "    [NEED_HUMAN: x]",
        "`[NEED_HUMAN: x]`",
        "- [NEED_HUMAN: x]",
        "Write [NEED_HUMAN: x] to ask.",
        "[need_human: x]",
    ] {
        check(text, &[], text);
    }
    check("```\ncode\n```\n[NEED_HUMAN: x]", &["x"], "```\ncode\n```");
    check("``` not `a fence\n[NEED_HUMAN: x]", &["x"], "``` not `a fence");
}

#[test]
fn what_is_malformed_stays_text_and_says_why() {
    let why = |text: &str| {
        let parsed = parse_human_query(text);
        assert_eq!((parsed.questions.len(), parsed.visible.as_str()), (0, text));
        parsed.malformed.why
    };
    assert_eq!(why("[NEED_HUMAN: never closed"), [Why::Unclosed]);
    assert_eq!(why("[NEED_HUMAN: [never closed]"), [Why::Unclosed]);
    assert_eq!(why("[NEED_HUMAN: over\n```\ncode]\n```"), [Why::Unclosed]);
    assert_eq!(why("[NEED_HUMAN:   ]"), [Why::Empty]);
    assert_eq!(why("[NEED_HUMAN which?]"), [Why::NoColon]);
    assert_eq!(why(&format!("[NEED_HUMAN: {}]", "x".repeat(2_000))), [Why::TooLong]);
    assert_eq!(why("[NEED_HUMAN: x]```\ny"), [Why::CodeFollows]);
    assert_eq!(why("so: [NEED_HUMAN: x]"), [Why::NotAtLineStart]);
    check(&format!("[NEED_HUMAN:{}]", "x".repeat(2_000)), &[&"x".repeat(2_000)], "");
    check("[NEED_HUMAN: a\n\n[NEED_HUMAN: b]", &["b"], "[NEED_HUMAN: a");
}

#[test]
fn whoever_reads_along_sees_no_piece_of_a_marker() {
    let text = "I looked.\n[NEED_HUMAN: Which [port]?]\nThen I go on. [x] [NEED_HUMAN\nend";
    let mut seen = Vec::new();
    for end in 1..=text.len() {
        let now = visible_so_far(&text[..end]);
        assert!(!now.contains("Which") && !now.contains("\n["), "{now:?}");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen.last().map(String::as_str), Some("I looked.\nThen I go on. [x] [NEED_HUMAN\nend"));
    assert_eq!(visible_so_far("hello\n[NEED_H"), "hello");
    assert_eq!(visible_so_far("hello\n[NEED_HX"), "hello\n[NEED_HX");
    assert_eq!(visible_so_far(&format!("[NEED_HUMAN: {}", "x".repeat(2_100))).len(), 2_113);
}

fn ask(id: &str) -> Ask {
    Ask {
        id: id.into(),
        agent_id: "ruda".into(),
        session_key: "agent:ruda:main".into(),
        run_id: Some(format!("run-{id}")),
        message_id: None,
        cause: None,
        questions: vec![format!("question {id}?")],
        left_out: 0,
        at: 1,
        task: Some(TaskRef {
            task_id: "task_1".into(),
            agent_id: "eden".into(),
            session_key: "agent:eden:main".into(),
        }),
        work_session_id: Some("ws".into()),
        conversation_id: None,
        deadline: None,
        default_answer: None,
    }
}

fn moved(question: &Question, input: Input) -> Next {
    step(question, input, 10).expect("taken").expect("moves")
}

fn answer(text: &str) -> Input {
    Input::Answer { text: text.into(), by: "mina".into(), via: "human.answer".into(), chat: None }
}

fn words(next: &Next) -> Vec<What> {
    next.told.iter().map(|told| told.what).collect()
}

#[test]
fn a_question_goes_its_way_and_the_first_answer_stands() {
    let asked = create(ask("a")).expect("asked");
    assert_eq!((words(&asked), asked.question.node_id.as_str()), (vec![What::Requested], "task:task_1"));
    let open = moved(&asked.question, Input::Blocked).question;
    assert_eq!((open.phase, step(&open, Input::Blocked, 9)), (Phase::Open, Ok(None)));
    let answered = moved(&open, answer("8080"));
    assert_eq!((words(&answered), answered.question.state), (vec![What::Answered], State::Answered));
    let said = step(&answered.question, answer("9090"), 11).expect_err("the first stands").to_string();
    assert!(said.contains("mina") && said.contains("8080"), "{said}");
    let settled = moved(&answered.question, Input::Settled { resumed: true });
    assert_eq!(words(&settled), [What::TaskResumed]);
    let done = moved(&settled.question, Input::Told).question;
    assert_eq!(done.phase, Phase::Done);
    for input in [Input::Blocked, Input::Settled { resumed: true }, Input::Told, Input::Due(Deadline::Expire)] {
        assert_eq!(step(&done, input, 99), Ok(None), "what is over does not move");
    }
    assert_eq!(done.rev, 5);
}

#[test]
fn an_answer_that_says_nothing_or_too_much_is_refused() {
    let open = create(ask("a")).expect("asked").question;
    assert_eq!(step(&open, answer(" \n "), 2), Err(Refused::Empty));
    let long = "x".repeat(ANSWER_CHARS_MAX + 1);
    assert_eq!(step(&open, answer(&long), 2), Err(Refused::TooLong { chars: ANSWER_CHARS_MAX + 1 }));
    assert!(step(&open, answer(&long[1..]), 2).is_ok());
    assert_eq!(create(Ask { questions: vec![" ".into()], ..ask("b") }).map(drop), Err(Refused::NoQuestion));
}

#[test]
fn a_second_ask_of_a_task_is_added_and_both_ids_mean_it() {
    let open = create(ask("a")).expect("asked").question;
    let added =
        moved(&open, Input::Ask(Box::new(Ask { session_key: "agent:ruda:x".into(), deadline: Some(50), ..ask("b") })));
    let question = &added.question;
    assert_eq!(question.question, "1. question a?\n2. question b?");
    assert_eq!((question.askers(), question.deadline), (vec!["agent:ruda:main", "agent:ruda:x"], Some(50)));
    assert!(
        question.is_called("a") && question.is_called("b") && question.is_of_run("run-b") && !question.is_called("c")
    );
    assert_eq!(step(question, Input::Ask(Box::new(ask("b"))), 3), Ok(None), "the same again adds nothing");
    let same = Ask { session_key: "agent:ruda:y".into(), questions: vec!["question a?".into()], ..ask("c") };
    let twice = moved(question, Input::Ask(Box::new(same))).question;
    assert_eq!((&twice.question, twice.askers().len()), (&question.question, 3), "one more asks, and nothing more");
    let mut many = question.clone();
    for n in 0..40 {
        many = moved(&many, Input::Ask(Box::new(ask(&format!("n{n}"))))).question;
    }
    assert_eq!((many.questions.len(), many.left_out, many.asks.len()), (QUESTIONS_MAX, 22, 20));
    let over = moved(&many, answer("ok")).question;
    assert!(step(&over, Input::Ask(Box::new(ask("late"))), 3).is_err(), "what is over is not added to");
}

#[test]
fn a_deadline_answers_escalates_or_expires() {
    let with = |default: Option<&str>| {
        create(Ask { deadline: Some(5), default_answer: default.map(str::to_owned), ..ask("a") })
            .expect("asked")
            .question
    };
    assert_eq!(step(&with(None), Input::Due(Deadline::Escalate), 4), Ok(None), "not yet");
    let answered = moved(&with(Some("8080")), Input::Due(Deadline::Escalate));
    assert_eq!(words(&answered), [What::Expired, What::Answered]);
    assert_eq!(answered.question.answer.as_ref().map(|answer| answer.by.as_str()), Some("deadline"));
    let escalated = moved(&with(None), Input::Due(Deadline::Escalate));
    assert_eq!((words(&escalated), escalated.question.state), (vec![What::Expired], State::Requested));
    assert_eq!(step(&escalated.question, Input::Due(Deadline::Escalate), 99), Ok(None), "told once");
    assert!(step(&escalated.question, answer("late but good"), 99).is_ok());
    let expired = moved(&with(None), Input::Due(Deadline::Expire)).question;
    assert_eq!((expired.state, expired.phase), (State::Expired, Phase::Resuming));
    assert!(matches!(step(&expired, answer("x"), 99), Err(Refused::Expired { .. })));
    assert!(moved(&expired, Input::Settled { resumed: true }).told.iter().all(|told| told.what == What::TaskResumed));
    let ended = moved(&with(None), Input::TaskEnded { status: "cancelled".into() }).question;
    assert_eq!((ended.state, ended.reason.as_deref()), (State::Expired, Some("its task is cancelled")));
}

#[test]
fn what_was_told_last_is_enough_to_know_how_a_question_stands() {
    let recalled = |next: &Next| {
        let told = next.told.last().expect("told");
        recall(told.what, &told.data, next.question.rev, next.question.updated_at).expect("it says enough")
    };
    let open = |next: &Next| Recalled::Open(Box::new(Question { phase: Phase::Asking, ..next.question.clone() }));
    let first = Ask { deadline: Some(5), cause: Some("run:call".into()), left_out: 2, ..ask("a") };
    let asked = create(first).expect("a question");
    assert_eq!(recalled(&asked), open(&asked));
    let added = moved(&asked.question, Input::Ask(Box::new(Ask { task: None, ..ask("b") })));
    assert_eq!(recalled(&added), open(&added));
    let late = moved(&added.question, Input::Due(Deadline::Escalate));
    assert_eq!(recalled(&late), open(&late));
    let answer = Input::Answer { text: "8080".into(), by: "kim".into(), via: "api".into(), chat: None };
    assert_eq!(recalled(&moved(&late.question, answer)), Recalled::Over { id: "a".into() });
    assert_eq!(recalled(&moved(&added.question, Input::Due(Deadline::Expire))), Recalled::Over { id: "a".into() });
    let told = &asked.told[0];
    for gone in ["questionId", "asks", "questions", "askedBy", "sessionKey", "createdAt"] {
        let mut data = told.data.clone();
        data.remove(gone);
        assert_eq!(recall(told.what, &data, 1, 1), None, "without {gone}");
    }
}
