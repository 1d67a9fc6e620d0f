//! Every word of the pages, in Korean and English: a table that cannot lack an entry, since it would not compile.

mod said;

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lang {
    Ko,
    En,
}

impl Lang {
    pub const ALL: [Self; 2] = [Self::Ko, Self::En];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ko => "ko",
            Self::En => "en",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.as_str() == word)
    }

    /// The first language of an `Accept-Language` header that we speak, in the order that it is written in.
    pub fn accepted(header: &str) -> Option<Self> {
        header.split(',').take(20).find_map(|part| {
            let tag = part.split(';').next()?.trim().split('-').next()?.to_ascii_lowercase();
            Self::parse(&tag)
        })
    }

    pub fn words(self) -> &'static Words {
        match self {
            Self::Ko => &KO,
            Self::En => &EN,
        }
    }

    /// One of two texts that came in both languages.
    pub fn pick<'a>(self, ko: &'a str, en: &'a str) -> &'a str {
        match self {
            Self::Ko => ko,
            Self::En => en,
        }
    }

    /// So many of something.
    pub fn count(self, count: usize, ko: &str, one: &str, many: &str) -> String {
        match self {
            Self::Ko => format!("{ko} {count}"),
            Self::En if count == 1 => format!("1 {one}"),
            Self::En => format!("{count} {many}"),
        }
    }
}

macro_rules! words {
    ($($name:ident: $ko:literal, $en:literal;)*) => {
        pub struct Words { $(pub $name: &'static str,)* }
        static KO: Words = Words { $($name: $ko,)* };
        static EN: Words = Words { $($name: $en,)* };

        #[cfg(test)]
        impl Words {
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

words! {
    skip: "본문으로 건너뛰기", "Skip to the content";
    views: "화면", "Views";
    overview: "개요", "Overview";
    conversations: "대화", "Conversations";
    tasks: "작업", "Tasks";
    questions: "질문", "Questions";
    chat: "채팅", "Chat";
    sign_in: "로그인", "Sign in";
    sign_out: "로그아웃", "Sign out";
    signed_in_as: "로그인:", "Signed in as";
    language: "언어", "Language";
    theme: "화면 색", "Theme";
    theme_auto: "자동", "Auto";
    theme_light: "밝게", "Light";
    theme_dark: "어둡게", "Dark";
    connected: "실시간", "Live";
    lost: "연결이 끊겼습니다. 다시 연결하는 중이며, 보이는 내용은 최신이 아닐 수 있습니다.", "Connection lost. Trying again; what you see may be old.";
    expired: "로그인이 만료되었습니다. 다른 탭에서 다시 로그인하면 입력한 내용은 그대로 남습니다.", "Your sign-in has expired. Sign in again in another tab; what you typed stays here.";
    not_sent: "보내지 못했습니다. 연결을 확인하고 다시 시도하세요. 입력한 내용은 그대로 있습니다.", "Not sent. Check the connection and try again; what you typed is still here.";
    unfetched: "최신 내용을 가져오지 못했습니다. 보이는 내용은 최신이 아닐 수 있습니다.", "What is new could not be fetched; what you see may be old.";
    vanished: "보고 있던 것이 더 이상 없습니다.", "What you are looking at is gone.";
    draft_unkept: "글이 너무 길어 이 브라우저에 임시로 보관하지 못합니다. 새로 고치기 전에 보내세요.", "Too long for this browser to keep: send it before you reload.";
    gone: "그사이 다른 곳에서 처리되었습니다. 입력한 내용은 여기에 남겨 둡니다.", "Somebody else was quicker and this is settled. What you typed is kept here.";
    saved: "반영했습니다", "Done";
    sent: "보냈습니다", "Sent";
    token: "토큰", "Token";
    token_help: "`chela token` 명령이 토큰을 출력합니다.", "`chela token` prints it.";
    token_wrong: "토큰이 맞지 않습니다. `chela token`이 출력하는 값을 넣으세요.", "Wrong token. `chela token` prints the right one.";
    token_locked: "틀린 토큰이 너무 많았습니다. 잠시 뒤에 다시 시도하세요.", "Too many wrong tokens. Wait a moment and try again.";
    code_wrong: "이 링크는 이미 쓰였거나 만료되었습니다. 토큰으로 로그인하세요.", "This link was used before, or has expired. Sign in with the token.";
    agents: "에이전트", "Agents";
    agent: "에이전트", "Agent";
    no_agents: "아직 에이전트가 없습니다. 설정의 `agents.list`에 추가하세요.", "No agents yet. Add some to `agents.list` in the configuration.";
    working: "작업 중", "Working";
    idle: "대기", "Idle";
    queued: "순서 대기", "Queued";
    waits_for_person: "답변 대기", "Waits for you";
    stuck: "막힘", "Blocked";
    paused: "중단됨", "Stopped by a person";
    queue: "대기열", "Queue";
    no_task: "맡은 작업 없음", "No task";
    step: "단계", "Step";
    steps: "단계", "Steps";
    progress: "진행", "Progress";
    team: "팀", "Team";
    role: "역할", "Role";
    role_orchestrator: "오케스트레이터", "Orchestrator";
    role_worker: "작업자", "Worker";
    role_agent: "독립 에이전트", "Independent agent";
    open_questions: "기다리는 질문", "Questions that wait";
    no_questions: "기다리는 질문이 없습니다.", "Nothing waits for you.";
    no_questions_help: "오케스트레이터가 사람에게 물으면 여기에 나타납니다.", "When an orchestrator asks a person, it shows up here.";
    all_questions: "모든 질문", "All questions";
    answered_questions: "답변한 질문", "Answered";
    pending_questions: "열린 질문", "Open";
    expired_questions: "만료된 질문", "Expired";
    asked: "질문한 시각", "Asked";
    asks: "질문", "asks";
    answer: "답변", "Answer";
    send_answer: "답변 보내기", "Send answer";
    answered_by: "답변한 사람", "Answered by";
    default_answer: "기한이 지나면 쓰는 답", "Answer at the deadline";
    deadline: "기한", "Deadline";
    for_task: "작업", "Task";
    failed_jobs: "실패한 위임", "Failed jobs";
    all_failed_jobs: "실패한 위임 모두 보기", "All failed jobs";
    no_failed_jobs: "실패한 위임이 없습니다.", "No job has failed.";
    activity: "최근 14일 활동", "Activity of 14 days";
    no_activity: "아직 기록된 활동이 없습니다.", "Nothing has happened yet.";
    events_per_day: "하루 이벤트 수", "Events per day";
    maximum: "최대", "max";
    day: "날짜", "Day";
    events: "이벤트", "Events";
    indexing: "기록을 색인하는 중입니다", "The log is being indexed";
    indexing_help: "끝나면 저절로 나타납니다.", "It will appear by itself.";
    backlog: "백로그", "Backlog";
    pending: "대기", "Pending";
    pending_approval: "승인 대기", "Waits for approval";
    in_progress: "진행 중", "In progress";
    blocked: "막힘", "Blocked";
    completed: "완료", "Completed";
    closed: "종료", "Closed";
    cancelled: "취소됨", "Cancelled";
    failed: "실패", "Failed";
    abandoned: "버려짐", "Abandoned";
    priority: "우선순위", "Priority";
    urgent: "긴급", "Urgent";
    high: "높음", "High";
    medium: "보통", "Medium";
    low: "낮음", "Low";
    nothing_here: "없음", "Nothing here";
    more: "더 보기", "Show more";
    all: "전체", "All";
    all_agents: "모든 에이전트", "All agents";
    filter: "적용", "Apply";
    filters: "필터", "Filters";
    clear: "필터 지우기", "Clear filters";
    search: "검색", "Search";
    search_help: "메시지의 낱말", "Words of messages";
    no_match: "맞는 것이 없습니다.", "Nothing matches.";
    status: "상태", "Status";
    category: "분류", "Category";
    categories: "분류", "Categories";
    uncategorised: "미분류", "Uncategorised";
    counted_days: "숫자는 최근 30일의 작업 세션 수이고, 목록에는 그 전 것도 있습니다.", "Numbers are work sessions of the last 30 days; lists have earlier ones too.";
    choose_category: "분류를 고르거나 전체를 보세요.", "Choose a category, or see all.";
    by_time: "최신순", "Latest first";
    by_category: "카테고리별", "By category";
    change_category: "분류 바꾸기", "Change category";
    no_category_yet: "아직 없음", "None yet";
    category_taken_back: "자동 분류로 되돌리기", "Back to the automatic one";
    category_manual: "사람이 정함", "Set by a person";
    tag: "태그", "Tag";
    participants: "참여자", "Participants";
    last_activity: "마지막 활동", "Last activity";
    messages: "메시지", "Messages";
    threads: "대화 줄기", "Threads";
    all_threads: "모든 줄기", "All threads";
    session_active: "활동 중", "Active";
    session_quiet: "잠잠함", "Quiet";
    session_archived: "보관됨", "Archived";
    thread_active: "진행 중", "Active";
    thread_blocked: "막힘", "Blocked";
    thread_resolved: "해결됨", "Resolved";
    older: "이전 것 보기", "Older";
    newer: "다음 것 보기", "Newer";
    latest: "최신으로", "Latest";
    no_messages: "아직 주고받은 말이 없습니다.", "Nothing has been said yet.";
    it_was_blocked: "상대가 답하지 못했습니다", "The other side could not answer";
    events_of_session: "이 세션의 이벤트", "Events of this session";
    tasks_of_session: "이 세션의 작업", "Tasks of this session";
    back_to_list: "목록으로", "Back to the list";
    description: "설명", "Description";
    context: "배경", "Context";
    conversation: "대화", "Conversation";
    details: "내용", "Details";
    outcome: "결과", "Outcome";
    reason: "이유", "Reason";
    summary: "요약", "Summary";
    created: "만든 시각", "Created";
    created_by: "만든 이", "Created by";
    due: "마감", "Due";
    depends_on: "먼저 끝나야 할 작업", "Waits for";
    overdue: "기한 지남", "Overdue";
    until_now: "마감 없음, 지금까지", "No due date, until now";
    untitled_session: "협업 작업", "Collaboration";
    work_session: "작업 세션", "Work session";
    timeline: "진행 기록", "Progress";
    no_progress: "아직 진행 기록이 없습니다.", "No progress has been noted yet.";
    no_steps: "단계가 없습니다.", "There are no steps.";
    no_events: "이 작업의 이벤트가 없습니다.", "No events of this task.";
    no_sessions: "아직 세션이 없습니다.", "No sessions yet.";
    nothing_kept: "아직 확인한 적이 없습니다.", "Nobody has looked at it yet.";
    no_turns: "이 작업을 위해 오간 말이 없습니다.", "Nothing has been said for this task.";
    step_done: "끝남", "Done";
    step_skipped: "건너뜀", "Skipped";
    step_open: "할 일", "To do";
    step_now: "지금", "Now";
    complete_step: "끝내기", "Complete";
    skip_step: "건너뛰기", "Skip";
    start_step: "시작", "Start";
    move_up: "위로", "Move up";
    move_down: "아래로", "Move down";
    add_step: "단계 추가", "Add step";
    new_step: "새 단계", "New step";
    actions: "할 수 있는 일", "Actions";
    do_start: "시작", "Start";
    do_block: "막힘으로 표시", "Block";
    do_resume: "다시 시작", "Resume";
    do_complete: "완료", "Complete";
    do_cancel: "작업 취소", "Cancel the task";
    do_approve: "승인", "Approve";
    do_backlog: "백로그로", "To the backlog";
    do_note: "메모 추가", "Add a note";
    note: "메모", "Note";
    what_is_in_the_way: "무엇이 막고 있나요?", "What is in the way?";
    why_cancel: "왜 취소하나요?", "Why is it cancelled?";
    what_was_achieved: "무엇을 이루었나요?", "What was achieved?";
    force_complete: "열린 단계가 있어도 완료", "Complete although steps are open";
    move_to: "옮기기", "Move";
    never_mind: "그만두기", "Never mind";
    changed_meanwhile: "그사이 내용이 바뀌었습니다. 지금 상태를 보고 다시 하세요.", "This has changed since you looked. See how it stands now, and try again.";
    answered_already: "이미 다른 사람이 답했고, 먼저 온 답이 쓰입니다.", "Somebody has answered already, and the first answer stands.";
    question_expired: "기한이 지난 질문이라 답을 받지 않습니다.", "This question has expired and takes no answer any more.";
    waits_for_task: "먼저 끝나야 할 작업이 남아 있습니다.", "Another task has to be finished first.";
    gone_meanwhile: "그사이 지워졌습니다.", "It is gone; somebody has deleted it.";
    guard_refused: "규칙이 막았습니다. 남은 일을 먼저 끝내세요.", "A guard has refused it. Finish what is left first.";
    cannot_now: "지금 상태에서는 할 수 없습니다.", "That cannot be done as things stand.";
    not_taken: "입력을 받아들일 수 없습니다.", "What was given cannot be taken.";
    try_later: "지금은 처리할 수 없습니다. 잠시 뒤에 다시 시도하세요.", "This cannot be done just now. Try again in a moment.";
    too_often: "요청이 너무 많습니다. 잠시 뒤에 다시 시도하세요.", "Too many requests. Wait a moment and try again.";
    too_long: "내용이 너무 깁니다.", "That is too long.";
    broken_off: "내용이 끝까지 도착하지 않았습니다. 다시 보내세요.", "It did not arrive whole. Send it again.";
    wrong_name: "이 이름으로는 열 수 없습니다.", "This is not opened under this name.";
    wrong_place: "이 주소의 페이지에서는 바꿀 수 없습니다.", "Pages of this address may change nothing here.";
    blocked_input: "사람의 답을 기다림", "Waits for a person's answer";
    blocked_dependency: "다른 작업을 기다림", "Waits for another task";
    blocked_external: "바깥 사정", "Something outside";
    blocked_error: "오류", "An error";
    blocked_limit: "한도에 이름", "A limit was reached";
    blocked_other: "그 밖의 이유", "Another reason";
    help_requested: "도움을 요청함", "Help was asked for";
    help_escalated: "오케스트레이터에게 알림", "The orchestrator was told";
    help_failed: "도움을 얻지 못함", "No help came";
    task_over: "끝난 작업입니다.", "This task is over.";
    unreadable: "작업 파일을 읽을 수 없습니다", "The task's file cannot be read";
    message: "메시지", "Message";
    send: "보내기", "Send";
    abort: "멈추기", "Stop";
    thinking: "답하는 중…", "Answering…";
    waiting_messages: "순서를 기다리는 메시지", "Messages that wait";
    chat_with: "대화 상대", "Chat with";
    several_open: "열린 질문이 여럿이라 이 메시지를 답으로 받지 않았습니다. 질문마다 따로 답하세요.", "Several questions are open, so a message here is not taken for an answer. Answer each in its own place.";
    chat_empty: "아직 대화가 없습니다. 할 일을 적어 보내 보세요.", "No conversation yet. Say what is to be done.";
    nobody_to_chat: "대화할 수 있는 에이전트가 없습니다.", "There is nobody to talk to.";
    you: "사람", "Person";
    system: "시스템", "System";
    tool_calls: "도구 사용", "Used tools";
    tool_failed: "도구 실패", "A tool failed";
    withdrawn: "취소한 메시지", "Withdrawn";
    summed_up: "앞선 대화를 요약했습니다", "What came before was summed up";
    began_anew: "새로 시작했습니다", "Began anew";
    cut: "글이 길어 잘랐습니다", "Cut, since it is long";
    show_whole: "전부 보기", "Show all of it";
    show_less: "줄여 보기", "Show less";
    next_part: "다음 부분", "Next part";
    too_long_here: "너무 길어 여기서는 고칠 수 없습니다. 편집기로 고치세요.", "too long to be edited here; use an editor.";
    rest_gone: "뒷부분은 더 이상 남아 있지 않습니다", "The rest is no longer kept";
    member: "구성원", "member";
    sessions: "세션", "Sessions";
    jobs: "위임", "Jobs";
    no_jobs: "위임이 없습니다.", "No jobs.";
    no_tasks: "작업이 없습니다.", "No tasks.";
    tokens_today: "오늘 쓴 토큰", "Tokens today";
    continuation: "이어 하기", "Kept at work";
    next_look: "다음 확인", "Looked at next";
    last_action: "마지막 조치", "Last action";
    in_a_row: "연속", "In a row";
    without_progress: "진전 없이", "Without progress";
    continuation_off: "꺼져 있음", "Off";
    layer_driving: "스스로 이어 하기", "Self-driving";
    layer_events: "멈춤을 알아차림", "Noticed that it stopped";
    layer_polling: "정기 확인", "Regular look";
    layer_backlog: "백로그에서 다음 작업", "The next of the backlog";
    layer_zombie: "방치된 작업 확인", "A task left alone";
    layer_unblock: "막힘 풀기", "Getting it unblocked";
    action_sent: "이어 하라고 보냄", "Told to go on";
    action_skip: "건너뜀", "Passed over";
    action_backoff: "미룸", "Put off";
    action_failed: "실패", "Failed";
    action_stopped: "멈춤", "Stopped";
    not_found: "찾을 수 없습니다", "Not found";
    not_found_help: "주소가 틀렸거나, 이미 없어진 것입니다.", "The address is wrong, or it is gone.";
    went_wrong: "보여 주지 못했습니다", "This could not be shown";
    refused: "하지 못했습니다", "Not done";
    you_typed: "입력한 내용", "What you typed";
    go_back: "돌아가기", "Go back";
    to_overview: "개요로", "To the overview";
    not_permitted: "이 토큰으로는 할 수 없습니다.", "This token may not do that.";
    from_to: "에서", "to";
    turn: "차례", "Turn";
    error: "오류", "Error";
    plugins: "플러그인", "Plugins";
    milestones: "마일스톤", "Milestones";
    todos: "할 일 목록", "Todos";
    workspace: "작업 공간", "Workspace";
    channels: "채널", "Channels";
    settings: "설정", "Settings";
    further: "더 보기", "More";
    board: "보드", "Board";
    canvas: "캔버스", "Canvas";
    canvas_help: "누가 누구를 위해 무엇을 하는지 보여 주는 그래프", "A graph of who works for whom, and on what";
    schedule: "일정", "Schedule";
    schedule_help: "시작, 마감, 선행 작업을 시간에 따라", "Start, due date and dependencies along time";
    shown_as: "보는 방식", "Shown as";
    now: "지금", "Now";
    role_conversation: "대화", "Conversation";
    role_delegation: "위임", "Delegation";
    role_orchestration: "작업 관리", "Orchestration";
    role_system: "시스템", "System";
    role_of_event: "이벤트 역할", "Role of events";
    of_session: "작업 세션:", "Of the work session";
    as_tree: "위임 트리", "Delegation as a tree";
    no_delegation: "여기에는 주고받은 위임이 없습니다.", "Nothing was handed from one to another here.";
    event_type: "종류", "Type";
    paused_here: "멈춤: 새 이벤트를 받지 않습니다", "Paused: nothing new is shown";
    go_on_live: "실시간으로", "Go on live";
    pause: "멈추기", "Pause";
    question_card: "사람에게 질문", "Question to a person";
    self_driving_card: "이어 하기", "Self-driving";
    stop_guard_card: "완료를 막음", "Kept from stopping";
    steps_left: "남은 단계", "Steps left";
    job: "위임", "Job";
    raw_json: "원본 JSON", "Raw JSON";
    close: "닫기", "Close";
    sub_agent: "하위 에이전트", "Sub-agent";
    timeline_by_role: "역할별 이벤트", "Events by role";
    why: "왜", "Why";
    why_help: "무엇이 언제, 어떤 입력에 무엇이라고 답했는지 기록한 것입니다.", "What answered what, on which input, and when.";
    close_why: "이유 닫기", "Close the reasons";
    no_decisions: "기록된 결정이 없습니다.", "No decision is on record.";
    by_gateway: "게이트웨이가 정함", "By the gateway itself";
    answered: "답", "Answer";
    input_digest: "입력", "Input";
    job_pending: "대기", "Pending";
    job_running: "진행 중", "Running";
    job_completed: "완료", "Completed";
    job_failed: "실패", "Failed";
    job_abandoned: "버려짐", "Abandoned";
    job_cancelled: "취소됨", "Cancelled";
    jobs_by_state: "상태별 위임 수", "Jobs by state";
    tries: "시도", "Tries";
    resumed: "재개", "Resumed";
    next_try: "다음 시도", "Next try";
    retry_of: "처음 것", "The one before";
    cancel_job: "위임 취소", "Cancel the job";
    retry_job: "다시 시도", "Try again";
    phase: "국면", "Phase";
    identifier: "식별자", "Id";
    phase_send: "보내는 중", "Being sent";
    phase_wait: "첫 답을 기다림", "Waits for the first reply";
    phase_pingpong: "주고받는 중", "Back and forth";
    phase_announce: "결과를 알리는 중", "Being announced";
    phase_done: "끝남", "Done";
    turn_waiting: "다시 보낼 예정", "To be sent again";
    turn_stored: "상대의 순서를 기다림", "In the other's queue";
    turn_delivered: "상대가 처리 중", "Being worked on";
    turn_answered: "답함", "Answered";
    turn_failed: "실패", "Failed";
    turns: "주고받은 차례", "Turns";
    interface: "인터페이스", "Interface";
    unrecorded: "기록하지 못한 결정", "Decisions not recorded";
    latency: "호출 시간 (p50, p99)", "Time of calls (p50, p99)";
    slots: "슬롯", "Slots";
    slot_serving: "동작 중", "Serving";
    slot_probation: "지켜보는 중", "On probation";
    slot_loading: "불러오는 중", "Loading";
    slot_quarantined: "격리됨", "In quarantine";
    slot_disabled: "꺼짐", "Disabled";
    slot_failed: "불러오지 못함", "Not loaded";
    slot_empty: "비어 있음", "Empty";
    nothing_serves: "동작하는 플러그인이 없습니다.", "No plugin serves here.";
    waits_for_grants: "더 넓은 권한을 기다리는 업데이트", "An update waits for wider grants";
    calls: "호출", "Calls";
    failures: "실패", "Failures";
    fallbacks: "기본값으로 처리", "Fallbacks";
    memory: "메모리", "Memory";
    grants: "권한", "Grants";
    none: "없음", "None";
    installed: "설치만 된 파일", "Installed, not bound";
    none_installed: "모든 파일이 쓰이고 있거나, 파일이 없습니다.", "Every file is in use, or there is none.";
    source: "출처", "Source";
    on_failure: "실패하면", "On failure";
    failure_blocks: "막음", "Blocks";
    failure_builtin: "내장된 것이 대신함", "The built-in one decides";
    failure_allows: "허용함", "Allows";
    hash: "지문", "Hash";
    grant_host: "호스트", "host";
    grant_secret: "비밀", "secret";
    grant_webhook: "웹훅", "webhook";
    do_enable: "켜기", "Enable";
    do_disable: "끄기", "Disable";
    do_release: "격리 풀기", "Release";
    do_rollback: "이전 버전으로", "Roll back";
    do_unload: "설정대로 되돌리기", "Back to the configuration";
    do_accept: "더 넓은 권한 허락", "Accept the wider grants";
    try_classifier: "분류기 시험", "Try a classifier";
    try_help: "바꾸기 전에, 글 하나나 최근 작업 세션 100개에 무엇이라고 답할지 봅니다. 아무것도 바뀌지 않습니다.", "See what it would answer on a text or on the last 100 work sessions, before a swap. Nothing is changed.";
    try_text: "글", "Text";
    try_first: "저장하기 전에 시험할 글", "A text to try it on before it is saved";
    try_upload: "바꾸기 전에 시험할 컴포넌트 파일 (.wasm)", "Component file to try before a swap (.wasm)";
    try_on_text: "이 글로 시험", "Try on this text";
    try_on_sessions: "최근 작업 세션 100개로 비교", "Compare on the last 100 work sessions";
    not_tried: "시험하지 못했습니다.", "It could not be tried.";
    tried_asked: "물어본 수", "Asked";
    tried_changed: "달라짐", "Changed";
    answers_now: "지금", "Answers now";
    would_answer: "바꾸면", "Would answer";
    only_changed: "달라지는 것만 보여 줍니다.", "Only what would change is shown.";
    load: "불러오기", "Load";
    do_load: "불러와 바꾸기", "Load and swap";
    upload: "컴포넌트 파일 (.wasm)", "Component file (.wasm)";
    do_upload: "올려서 바꾸기", "Upload and swap";
    upload_needs_script: "파일을 올리려면 스크립트가 필요합니다. 명령줄의 `chela plugin load`를 쓰세요.", "Uploading needs a script; use `chela plugin load` on the command line.";
    try_upload_needs_script: "파일을 올려 시험하려면 스크립트가 필요합니다. 게이트웨이에 있는 파일은 위에서 출처로 시험하세요.", "Trying a file from here needs a script; one that the gateway has is tried by its source above.";
    config_of_plugin: "플러그인 설정", "Configuration of the plugin";
    config_json: "JSON 객체", "A JSON object";
    save_config: "설정 적용", "Apply the configuration";
    rules: "규칙 파일", "Rules";
    rules_help: "틀린 규칙은 받아들이지 않으며, 지금 규칙이 계속 쓰입니다.", "Rules with an error are not taken, and those that serve go on serving.";
    rules_too_long: "파일이 너무 길어 여기서는 고칠 수 없습니다. 편집기로 고치세요.", "is too long to be edited here; use an editor.";
    rules_not_text: "파일이 UTF-8이 아니어서 여기서는 고칠 수 없습니다. 편집기로 고치세요.", "is not UTF-8, so it cannot be edited here; use an editor.";
    rules_unread: "파일을 읽지 못해 여기서는 고칠 수 없습니다.", "could not be read, so it cannot be edited here.";
    save_rules: "규칙 저장", "Save the rules";
    swaps: "바뀐 기록", "History of swaps";
    no_swaps: "아직 바뀐 적이 없습니다.", "Nothing was swapped yet.";
    plugin_log: "플러그인 로그", "Log of the plugin";
    no_milestones: "마일스톤이 없습니다.", "There are no milestones.";
    no_todos: "할 일이 없습니다.", "There is nothing to do.";
    to_first: "처음으로", "To the first";
    edit: "고치기", "Edit";
    delete: "지우기", "Delete";
    delete_really: "정말 지울까요? 되돌릴 수 없습니다.", "Delete it? There is no way back.";
    items_go_too: "함께 지워지는 항목:", "Items that go with it:";
    milestone: "마일스톤", "Milestone";
    item: "항목", "Item";
    todo: "할 일", "Todo";
    show_items: "항목 보기", "Show its items";
    new_item: "새 항목", "New item";
    add_item: "항목 추가", "Add item";
    task_id: "작업 식별자", "Id of a task";
    title: "제목", "Title";
    save: "저장", "Save";
    new_milestone: "새 마일스톤", "New milestone";
    add_milestone: "마일스톤 추가", "Add milestone";
    new_todo: "새 할 일", "New todo";
    add_todo: "할 일 추가", "Add todo";
    folder: "폴더", "Folder";
    all_files: "전체", "All files";
    choose_agent: "에이전트를 고르세요.", "Choose an agent.";
    empty_folder: "빈 폴더입니다.", "The folder is empty.";
    more_files: "파일이 너무 많아 모두 세지는 않았습니다.", "There are more files than are counted.";
    no_such_file: "그런 파일이 없습니다.", "There is no such file.";
    not_shown_here: "여기서는 보여 줄 수 없습니다.", "This cannot be shown here.";
    file_unreadable: "파일을 읽지 못했습니다.", "The file could not be read.";
    no_channels: "연결된 채널이 없습니다.", "There are no channels.";
    no_channels_help: "설정의 `channels`에 추가합니다.", "Add one to `channels` in the configuration.";
    channel_ready: "연결됨", "Ready";
    channel_starting: "시작하는 중", "Starting";
    channel_degraded: "불안정", "Degraded";
    channel_needs_auth: "인증 필요", "Needs a token";
    channel_stopped: "멈춤", "Stopped";
    received: "받음", "Received";
    delivered: "보냄", "Delivered";
    undelivered: "보내는 중", "Not yet delivered";
    refused_messages: "거절됨", "Refused";
    restarts: "재시작", "Restarts";
    connections: "연결", "Connections";
    restart_channel: "다시 시작", "Restart";
    revision: "판", "Revision";
    file_in_force: "파일이 그대로 쓰이고 있습니다", "The file is in force";
    file_not_in_force: "파일에 잘못이 있어 이전 설정이 쓰입니다.", "The file has errors; the settings before stay in force.";
    restart_needed: "다시 시작해야 쓰이는 것", "Taken up by a restart";
    sections: "부분", "Parts";
    setting: "항목", "Setting";
    value: "값", "Value";
    meaning: "뜻", "Meaning";
    kind_integer: "정수", "integer";
    kind_number: "수", "number";
    kind_string: "글", "text";
    kind_boolean: "예/아니오", "yes or no";
    kind_array: "목록", "list";
    kind_object: "묶음", "object";
    change_settings: "설정 바꾸기", "Change the settings";
    change_settings_help: "여기 적은 것이 이 부분의 전부가 되며, 빠진 항목은 기본값으로 돌아갑니다. 틀린 값은 파일에 쓰지 않습니다.", "What stands here becomes all of this part; what is left out goes back to its default. What has an error is not written.";
    tokens: "토큰과 범위", "Tokens and scopes";
    tokens_help: "토큰은 보여 주지 않습니다. `gateway.auth.tokens`에서 정합니다.", "Tokens themselves are not shown. `gateway.auth.tokens` has them.";
    owner: "소유자", "Owner";
    queue_lengths: "에이전트별 대기열", "Queue of each agent";
    spread: "지난 7일의 분류", "Categories of the last 7 days";
    spread_help: "막대는 작업 세션 수, 화살표는 그 전 7일과 비교한 비중의 변화입니다.", "Bars are work sessions; arrows tell how the share has moved since the 7 days before.";
}
