//! An adapter driven by hand, and one driven by chance against what must hold whatever it answers.

use super::*;

const RATES: Rates = Rates { frames: 600, requests: 600, messages: 6_000 };

struct Driven {
    adapter: Adapter,
    now: u64,
}

impl Driven {
    fn live() -> Self {
        let mut driven = Self { adapter: Adapter::new(Bounds::default(), RATES, 0), now: 0 };
        assert_eq!(driven.step(Event::Start), [Effect::Make]);
        let inputs = driven.told(Event::Made { restored: false });
        assert_eq!(inputs, [Input::Started { restored: false }]);
        driven
    }

    fn ready() -> Self {
        let mut driven = Self::live();
        driven.answer(vec![Output::Status { health: Health::Ready, detail: String::new() }]);
        driven
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        step(&mut self.adapter, event, 0, self.now)
    }

    fn answer(&mut self, outputs: Vec<Output>) -> Vec<Effect> {
        self.step(Event::Called { outputs, probation: false })
    }

    /// What a call is told because of an event.
    fn told(&mut self, event: Event) -> Vec<Input> {
        inputs_of(&self.step(event))
    }

    fn with_socket(mut self) -> Self {
        let presence = Presence { target: "channel:7".into(), typing: true };
        assert_eq!(self.told(Event::Presence(presence)).len(), 1);
        let effects = self.answer(vec![open("main")]);
        assert!(matches!(effects.as_slice(), [Effect::Open { epoch: 1, .. }]), "{effects:?}");
        assert_eq!(self.told(opened("main", 1)), [Input::Opened { connection: "main".into() }]);
        self
    }
}

fn inputs_of(effects: &[Effect]) -> Vec<Input> {
    effects
        .iter()
        .flat_map(|effect| if let Effect::Call(inputs) = effect { inputs.clone() } else { Vec::new() })
        .collect()
}

fn literal(text: &str) -> Text {
    vec![Piece::Literal(text.into())]
}

fn open(connection: &str) -> Output {
    let (url, compression) = (literal("wss://chat.example/"), Compression::None);
    Output::Open(Open { connection: connection.into(), url, headers: Vec::new(), compression })
}

fn opened(connection: &str, epoch: u64) -> Event {
    Event::Opened { connection: connection.into(), epoch }
}

fn text(epoch: u64, data: &str) -> Event {
    Event::Text { connection: "main".into(), epoch, data: data.into() }
}

fn inbound(id: &str) -> Output {
    Output::Inbound(Inbound {
        id: id.into(),
        wants: Wants::Message,
        target: "channel:7".into(),
        session: "test:channel:7".into(),
        direct: false,
        space: String::new(),
        sender_id: "1".into(),
        sender_name: "Mina\u{7}".into(),
        sender_is_bot: false,
        addressed: true,
        agent: String::new(),
        text: "hello\u{1b}[2J\nthere".into(),
        reply_to: String::new(),
    })
}

fn message(id: &str, target: &str) -> Event {
    let (id, target) = (id.to_owned(), target.to_owned());
    let outbound =
        Outbound { id, target, text: "hi".into(), reply_to: String::new(), edits: Vec::new(), question: None };
    Event::Deliver { outbound, since: 0 }
}

fn result(id: &str, error: &str, retry: bool) -> Output {
    let (id, error) = (id.into(), error.into());
    Output::Delivered(Delivered { id, message_ids: vec!["m".into()], error, retry, retry_ms: 0 })
}

fn delivered(inputs: &[Input]) -> Vec<&str> {
    inputs
        .iter()
        .filter_map(|input| if let Input::Deliver(message) = input { Some(&*message.id) } else { None })
        .collect()
}

#[test]
fn other_rates_count_from_when_they_are_given() {
    let mut driven = Driven::ready().with_socket();
    let send = || Output::Send { connection: "main".into(), data: literal("x") };
    let frames = |effects: &[Effect]| effects.iter().filter(|effect| matches!(effect, Effect::Send { .. })).count();
    driven.adapter.allow(Rates { frames: 1, ..RATES }, driven.now);
    assert_eq!(frames(&driven.answer(vec![send()])), 1);
    driven.told(text(1, "more"));
    let effects = driven.answer(vec![send()]);
    assert!(
        matches!(effects.as_slice(), [Effect::Invalid { said }] if said.contains("more than 1 frames")),
        "{effects:?}"
    );
    // The same again changes nothing; others are in force at once.
    driven.adapter.allow(Rates { frames: 1, ..RATES }, driven.now);
    assert!(matches!(driven.answer(vec![send()]).as_slice(), [Effect::Invalid { .. }]));
    driven.adapter.allow(Rates { frames: 2, ..RATES }, driven.now);
    assert_eq!(frames(&driven.answer(vec![send(), send()])), 2);
}

#[test]
fn what_queued_up_during_a_call_comes_as_one_list() {
    let mut driven = Driven::ready().with_socket();
    for n in 0..3 {
        assert_eq!(driven.step(text(1, &n.to_string())), []);
    }
    let inputs = inputs_of(&driven.answer(Vec::new()));
    assert_eq!(inputs.len(), 3);
    assert!(matches!(&inputs[2], Input::Text { data, .. } if data == "2"));
}

#[test]
fn what_goes_on_record_comes_before_what_is_done() {
    let mut driven = Driven::ready().with_socket();
    let send = Output::Send { connection: "main".into(), data: literal("ack") };
    let effects = driven.answer(vec![send.clone(), inbound("a"), inbound("a"), Output::Checkpoint, send]);
    let [Effect::Commit(commit), Effect::Send { .. }, Effect::Send { .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert!(commit.checkpoint);
    assert_eq!(commit.inbound.len(), 1, "the same message twice is taken once");
    assert_eq!((&*commit.inbound[0].text, &*commit.inbound[0].sender_name), ("hello[2J\nthere", "Mina"));
}

#[test]
fn a_message_that_could_not_be_put_on_record_is_taken_when_it_comes_again() {
    let mut driven = Driven::ready().with_socket();
    let taken = |effects: Vec<Effect>| match effects.into_iter().next() {
        Some(Effect::Commit(commit)) => commit.inbound.len(),
        _ => 0,
    };
    assert_eq!(taken(driven.answer(vec![inbound("a"), Output::Checkpoint])), 1);
    driven.adapter.not_recorded(&["a".into()], false);
    driven.step(Event::Failed { said: "the gateway stops".into(), again: false });
    driven.now += 1_000;
    driven.step(Event::Tick);
    driven.told(Event::Made { restored: true });
    assert_eq!(taken(driven.answer(vec![inbound("a"), Output::Checkpoint])), 1);
}

#[test]
fn a_call_that_failed_does_nothing_and_the_adapter_is_made_again_with_growing_patience() {
    let mut driven = Driven::ready().with_socket();
    let mut waits = Vec::new();
    for _ in 0..12 {
        let effects = driven.step(Event::Failed { said: "it trapped".into(), again: false });
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Call(_) | Effect::Make)), "{effects:?}");
        let Phase::Resting { until } = driven.adapter.phase() else { panic!("it rests") };
        waits.push(until - driven.now);
        driven.now = until;
        assert!(driven.step(Event::Tick).contains(&Effect::Make));
        driven.told(Event::Made { restored: true });
    }
    assert_eq!(&waits[..4], [1_000, 2_000, 4_000, 8_000]);
    assert_eq!(waits[11], 300_000);
    driven.now += 60_000;
    driven.answer(Vec::new());
    driven.step(Event::Failed { said: "later".into(), again: false });
    assert_eq!(
        driven.adapter.phase(),
        Phase::Resting { until: driven.now + 1_000 },
        "after a good minute patience is short again"
    );
}

#[test]
fn in_probation_the_version_before_is_told_what_the_failed_one_was_told() {
    let mut driven = Driven::ready().with_socket();
    driven.answer(Vec::new());
    let told = driven.told(text(1, "hello"));
    driven.step(text(1, "there"));
    let again = driven.told(Event::Failed { said: "it trapped".into(), again: true });
    assert_eq!(again[0], told[0]);
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(driven.adapter.connections()["main"].open, "and the socket is the same one");
}

#[test]
fn answers_out_of_bounds_are_no_answers() {
    let check = |outputs: Vec<Output>, expected: &str| {
        let mut driven = Driven::ready().with_socket();
        let before = driven.adapter.connections().len();
        let effects = driven.answer(outputs);
        let [Effect::Invalid { said }] = effects.as_slice() else { panic!("{effects:?}") };
        assert!(said.contains(expected), "{said}");
        assert_eq!((driven.adapter.phase(), driven.adapter.connections().len()), (Phase::Calling, before));
    };
    let secret = || Piece::Secret { name: "token".into(), encoding: Encoding::Raw };
    let to = |url: Text| {
        Output::Open(Open { connection: "x".into(), url, headers: Vec::new(), compression: Compression::None })
    };
    check(vec![Output::Checkpoint; 81], "81 outputs for 1 inputs");
    check((0..9).map(|n| open(&n.to_string())).collect(), "more than 8 connections");
    check(vec![open("")], "the name of a connection");
    check(
        vec![to(vec![Piece::Literal("wss://".into()), secret(), Piece::Literal(".evil.example/".into())])],
        "before the end of the host",
    );
    check(
        vec![Output::Send { connection: "main".into(), data: literal(&"x".repeat(2 << 20)) }],
        "a frame of 2097152 bytes",
    );
    check(vec![Output::Close { connection: "main".into(), code: 1006 }], "no close code");
    let keepalive = |interval_ms| {
        Output::Keepalive(Keepalive { connection: "main".into(), first_ms: 0, interval_ms, frame: literal("x") })
    };
    check(vec![keepalive(10)], "at least a second");
    check(vec![Output::SetTimer { name: "n".repeat(200), after_ms: 1 }], "the name of a timer");
    let Output::Inbound(mut message) = inbound("a") else { panic!("a message") };
    message.target = "main".into();
    check(vec![Output::Inbound(message)], "is no target");
    let header = |name: &str, value: &str| Header { name: name.into(), value: literal(value) };
    let asks = |header: Header| {
        let url = literal("https://chat.example/");
        Output::Request(Request {
            id: "r".into(),
            method: "GET".into(),
            url,
            headers: vec![header],
            body: Vec::new(),
            timeout_ms: 0,
        })
    };
    check(vec![asks(header("host", "x"))], "the host's own");
    check(vec![asks(header("x-a", "a\r\nb: c"))], "a line break");
}

#[test]
fn a_flood_is_a_failure_of_the_adapter() {
    let mut driven = Driven::ready().with_socket();
    let send = || Output::Send { connection: "main".into(), data: literal("x") };
    for _ in 0..10 {
        driven.answer((0..60).map(|_| send()).collect());
        driven.step(text(1, "more"));
    }
    let effects = driven.answer(vec![send()]);
    assert!(
        matches!(effects.as_slice(), [Effect::Invalid { said }] if said.contains("600 frames a minute")),
        "{effects:?}"
    );
}

#[test]
fn whoever_says_all_the_time_how_it_is_fails() {
    let mut driven = Driven::ready().with_socket();
    let status = |n: usize| Output::Status { health: Health::Ready, detail: n.to_string() };
    for _ in 0..10 {
        driven.answer((0..59).map(status).collect());
        driven.step(text(1, "more"));
    }
    let effects = driven.answer((0..60).map(status).collect());
    assert!(
        matches!(effects.as_slice(), [Effect::Invalid { said }] if said.contains("600 statuses a minute")),
        "{effects:?}"
    );
}

#[test]
fn while_the_adapter_is_busy_what_waits_for_it_has_an_end() {
    let mut driven = Driven::ready().with_socket();
    assert!(driven.adapter.has_room());
    // The room reads on while there is room, and not a frame longer.
    let mut read = 0;
    while driven.adapter.has_room() {
        assert_eq!(driven.step(text(1, "x")), []);
        read += 1;
    }
    assert_eq!(read, 1_024);
    let first = inputs_of(&driven.answer(Vec::new()));
    assert!(first.len() == 256 && driven.adapter.has_room(), "it is read on once some of it was told");
    let mut driven = Driven::ready().with_socket();
    let large = "x".repeat(1 << 20);
    let mut read = 0;
    while driven.adapter.has_room() {
        driven.step(text(1, &large));
        read += 1;
    }
    assert_eq!(read, 4, "bytes count as well");
}

#[test]
fn webhook_calls_that_are_never_answered_leave_room_once_their_callers_are_gone() {
    let mut driven = Driven::ready();
    let call = |n: usize| {
        let (id, method, path) = (n.to_string(), "POST".to_owned(), "events".to_owned());
        let (query, headers, body) = (String::new(), Vec::new(), Vec::new());
        Event::Webhook(WebhookRequest { id, method, path, query, headers, body, verified: true })
    };
    let unanswered = |id: &str| Effect::Unanswered { webhook: id.into() };
    for n in 0..64 {
        assert_eq!(driven.told(call(n)).len(), 1);
        assert_eq!(driven.answer(Vec::new()), [], "the adapter says nothing to it");
    }
    assert_eq!(driven.step(call(64)), [unanswered("64")]);
    assert_eq!(driven.adapter.next_due(), Some(WEBHOOK_MS));
    driven.now = WEBHOOK_MS - 1;
    assert_eq!(driven.step(Event::Tick), []);
    driven.now = WEBHOOK_MS;
    let given_up = driven.step(Event::Tick);
    assert!(given_up.len() == 64 && given_up.contains(&unanswered("0")), "{given_up:?}");
    assert_eq!(driven.told(call(65)).len(), 1, "there is room again");
    let answer = |id: &str| {
        let (id, body) = (id.to_owned(), literal("well"));
        Output::WebhookResponse(WebhookResponse { id, status: 200, headers: Vec::new(), body })
    };
    let effects = driven.answer(vec![answer("0"), answer("65")]);
    assert!(matches!(effects.as_slice(), [Effect::Respond(response)] if response.id == "65"), "{effects:?}");
}

#[test]
fn keepalives_go_out_while_the_adapter_is_at_work() {
    let mut driven = Driven::ready().with_socket();
    let alive = |frame: &str| {
        let (connection, frame) = ("main".into(), literal(frame));
        Output::Keepalive(Keepalive { connection, first_ms: 500, interval_ms: 1_000, frame })
    };
    driven.answer(vec![alive("one")]);
    driven.told(text(1, "x"));
    driven.now = 499;
    assert_eq!(driven.step(Event::Tick), []);
    driven.now = 500;
    let sent = |effects: &[Effect]| matches!(effects, [Effect::Send { connection, .. }] if connection == "main");
    assert!(sent(&driven.step(Event::Tick)), "while a call is under way");
    let told = inputs_of(&driven.answer(vec![alive("two")]));
    assert_eq!(told, [Input::KeepaliveSent { connection: "main".into() }]);
    assert_eq!(driven.adapter.next_due(), Some(1_500), "another frame, the same pace");
    driven.now = 60_000;
    assert!(sent(&driven.step(Event::Tick)), "what was slept through is not made up for");
    assert_eq!(driven.adapter.next_due(), Some(60_500));
    driven.answer(Vec::new());
    driven.step(Event::Closed {
        connection: "main".into(),
        epoch: 1,
        code: 1000,
        reason: String::new(),
        refused: false,
    });
    assert_eq!(driven.adapter.next_due(), None);
}

#[test]
fn messages_of_one_place_keep_their_order_and_others_do_not_wait_for_them() {
    let mut driven = Driven::live();
    driven.answer(Vec::new());
    for (id, target) in [("a1", "channel:a"), ("a2", "channel:a"), ("b1", "channel:b")] {
        assert_eq!(driven.step(message(id, target)), [], "it is not ready");
    }
    assert_eq!(driven.told(Event::Restart), []);
    driven.told(Event::Made { restored: false });
    let told = inputs_of(&driven.answer(vec![Output::Status { health: Health::Ready, detail: String::new() }]));
    assert_eq!(delivered(&told), ["a1", "b1"]);
    let effects = driven.answer(vec![result("a1", "try later", true), result("b1", "", false)]);
    assert!(matches!(effects.as_slice(), [Effect::Commit(Commit { done, .. })] if done.len() == 1), "{effects:?}");
    assert_eq!(driven.told(Event::Tick), [], "the second of a place waits for the first");
    driven.now = 1_000;
    assert_eq!(delivered(&driven.told(Event::Tick)), ["a1"]);
    let effects = driven.answer(vec![result("a1", "no such place", false)]);
    let [Effect::Commit(Commit { done, .. }), Effect::Call(told)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(done[0].outcome, Outcome::Refused { said: "no such place".into() });
    assert_eq!(delivered(told), ["a2"]);
    driven.now += 600_000;
    driven.step(Event::Tick);
    assert_eq!(delivered(&inputs_of(&driven.answer(Vec::new()))), ["a2"], "no result came, so it is told again");
}

#[test]
fn what_is_older_than_a_day_is_refused_and_not_handed_over_also_while_nothing_is() {
    let mut driven = Driven::live();
    driven.now = 3 * AGE_MS_MAX;
    for (id, since) in [("old", 0), ("older", 1), ("young", driven.now)] {
        let Event::Deliver { outbound, .. } = message(id, "channel:a") else { unreachable!("it is one") };
        assert_eq!(driven.step(Event::Deliver { outbound, since }), []);
    }
    assert!(driven.adapter.next_due().is_some_and(|due| due <= driven.now), "there is something to refuse");
    let effects = driven.step(Event::Tick);
    let [Effect::Commit(Commit { done, .. })] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(done.iter().all(|done| matches!(done.outcome, Outcome::Refused { .. })), "{done:?}");
    assert_eq!(done.iter().map(|done| done.id.as_str()).collect::<Vec<_>>(), ["old", "older"]);
    assert_eq!(driven.adapter.next_due(), Some(driven.now + AGE_MS_MAX + 1), "the adapter takes nothing yet");
    let ready = vec![Output::Status { health: Health::Ready, detail: String::new() }];
    assert_eq!(delivered(&inputs_of(&driven.answer(ready))), ["young"]);
    let mut driven = Driven::live();
    let Event::Deliver { outbound, .. } = message("old", "channel:a") else { unreachable!("it is one") };
    driven.now = 3 * AGE_MS_MAX;
    driven.step(Event::Deliver { outbound, since: 0 });
    let ready = vec![Output::Status { health: Health::Ready, detail: String::new() }];
    assert_eq!(
        delivered(&inputs_of(&driven.answer(ready))),
        [""; 0],
        "an adapter that comes back posts nothing of long ago"
    );
}

#[test]
fn a_message_that_breaks_the_adapter_is_refused_in_the_end() {
    let mut driven = Driven::ready();
    driven.step(message("bad", "channel:a"));
    let mut refused = 0;
    for _ in 0..6 {
        let effects = driven.step(Event::Failed { said: "it trapped".into(), again: false });
        refused += effects.iter().filter(|effect| matches!(effect, Effect::Commit(_))).count();
        driven.now += 1_000_000;
        driven.step(Event::Tick);
        driven.step(Event::Made { restored: true });
        driven.answer(vec![Output::Status { health: Health::Ready, detail: String::new() }]);
    }
    assert_eq!((refused, driven.adapter.undelivered()), (1, 0));
}

#[test]
fn a_stop_is_told_last_and_a_restart_waits_for_the_call_under_way() {
    let mut driven = Driven::ready().with_socket();
    assert_eq!(driven.step(Event::Stop), []);
    assert_eq!(inputs_of(&driven.answer(Vec::new())), [Input::Stopping]);
    let close = Output::Close { connection: "main".into(), code: 1000 };
    let effects = driven.answer(vec![close]);
    assert!(
        matches!(effects.as_slice(), [Effect::Close { .. }, Effect::Drop { .. }, Effect::Status(_), Effect::End]),
        "{effects:?}"
    );
    assert_eq!(driven.step(Event::Start), []);
    let mut driven = Driven::ready().with_socket();
    assert_eq!(driven.step(Event::Restart), []);
    assert!(driven.answer(Vec::new()).contains(&Effect::Make));
}

#[test]
fn what_an_old_socket_of_the_same_name_says_is_not_heard() {
    let mut driven = Driven::ready().with_socket();
    let effects = driven.answer(vec![open("main")]);
    assert!(
        matches!(effects.as_slice(), [Effect::Drop { epoch: 1, .. }, Effect::Open { epoch: 2, .. }]),
        "{effects:?}"
    );
    assert_eq!(driven.step(text(1, "late")), []);
    let closed =
        Event::Closed { connection: "main".into(), epoch: 1, code: 1006, reason: String::new(), refused: false };
    assert_eq!(driven.step(closed), []);
    assert_eq!(driven.told(opened("main", 2)).len(), 1);
}

/// Whatever an adapter answers and however its world behaves, what is promised holds.
#[test]
fn chance_breaks_no_promise() {
    for seed in 0..2_000 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut driven = Driven { adapter: Adapter::new(Bounds::default(), RATES, 0), now: 0 };
        let (mut sent, mut ended, mut accepted) = (0_u32, Vec::new(), std::collections::HashSet::new());
        driven.step(Event::Start);
        for _ in 0..120 {
            driven.now += chance.u64(0..2_000);
            let event = match (driven.adapter.phase(), chance.u32(0..12)) {
                (Phase::Making, 0..9) => Event::Made { restored: chance.bool() },
                (Phase::Making, _) => Event::Unmade { said: "no".into() },
                (Phase::Calling, 0..5) => {
                    Event::Called { outputs: outputs(&mut chance, sent), probation: chance.bool() }
                }
                (Phase::Calling, 5) => Event::Failed { said: "trap".into(), again: chance.bool() },
                (_, 6) => {
                    sent += 1;
                    message(&format!("m{sent}"), ["channel:a", "channel:b", "direct:c"][chance.usize(0..3)])
                }
                (_, 7) => text(chance.u64(0..6), "frame"),
                (_, 8) => opened("main", chance.u64(0..6)),
                (_, 9) if chance.u32(0..20) == 0 => Event::Restart,
                _ => Event::Tick,
            };
            let was_calling = driven.adapter.phase() == Phase::Calling;
            let ticks = event == Event::Tick;
            let mut effects = driven.step(event);
            if effects.iter().any(|effect| matches!(effect, Effect::Invalid { .. })) {
                assert_eq!(effects.len(), 1, "an answer that is none does nothing");
                effects = driven.step(Event::Failed { said: "invalid".into(), again: false });
            }
            let calls = effects.iter().filter(|effect| matches!(effect, Effect::Call(_))).count();
            assert!(calls <= 1 && (calls == 0 || driven.adapter.phase() == Phase::Calling), "one call at a time");
            assert!(!was_calling || calls == 0 || !effects.contains(&Effect::Make));
            for effect in effects {
                let Effect::Commit(commit) = effect else { continue };
                for message in commit.inbound {
                    assert!(accepted.insert(message.id.clone()), "{} twice", message.id);
                }
                ended.extend(commit.done.into_iter().map(|done| done.id));
            }
            assert!(driven.adapter.connections().len() <= 8);
            let due = driven.adapter.next_due();
            assert!(!ticks || due.is_none_or(|at| at > driven.now), "a tick leaves nothing due: {due:?}, seed {seed}");
        }
        let all = ended.len() + driven.adapter.undelivered();
        ended.sort();
        ended.dedup();
        assert_eq!(
            (all, all - driven.adapter.undelivered()),
            (sent as usize, ended.len()),
            "each ends once or is kept, seed {seed}"
        );
    }
}

fn outputs(chance: &mut fastrand::Rng, sent: u32) -> Vec<Output> {
    let mut outputs = Vec::new();
    for _ in 0..chance.usize(0..6) {
        let name = ["main", "other"][chance.usize(0..2)];
        outputs.push(match chance.u32(0..10) {
            0 => open(name),
            1 => Output::Send { connection: name.into(), data: literal("x") },
            2 => Output::Close { connection: name.into(), code: 1000 },
            3 => Output::SetTimer { name: name.into(), after_ms: chance.u64(0..5_000) },
            4 => inbound(&chance.u32(0..30).to_string()),
            5 | 6 => result(&format!("m{}", chance.u32(0..=sent)), ["", "no"][chance.usize(0..2)], chance.bool()),
            7 => Output::Status {
                health: [Health::Ready, Health::Degraded, Health::Failed][chance.usize(0..3)],
                detail: "x".into(),
            },
            8 => Output::Keepalive(Keepalive {
                connection: name.into(),
                first_ms: 0,
                interval_ms: 1_000 * chance.u64(0..3),
                frame: literal("k"),
            }),
            _ => Output::Checkpoint,
        });
    }
    outputs
}
