//! A Telegram and a host in small, seed by seed: the host is killed, requests and answers are lost, people talk all the while, seen by the
//! bot or not. Each delivery is there once at the end, and no look has changed a message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chela_adapters::handle;
use chela_sdk::Plugin;
use chela_sdk::channel::{Channel, HttpRequest, HttpResponse, Input, Outbound, Output, Piece, Question, State};
use fastrand::Rng;
use serde_json::{Value, json};
use telegram::Telegram;

const CONFIG: &str = r#"{"direct": "open", "commands": false, "typing": false, "requestsPerSecond": 10000}"#;
const CREW: i64 = -1_001_000_000_123;
/// Two private chats, a basic group, and a supergroup with a topic.
const TARGETS: [(&str, i64); 5] =
    [("direct:7", 7), ("direct:8", 8), ("channel:-5", -5), ("channel:-1001000000123", CREW), (TOPIC, CREW)];
const TOPIC: &str = "channel:-1001000000123:thread:77";

struct Message {
    chat: i64,
    own: bool,
    text: String,
    markup: Value,
}

/// What Telegram knows.
#[derive(Default)]
struct Network {
    counts: BTreeMap<i64, i64>,
    messages: BTreeMap<(i64, i64), Message>,
    updates: VecDeque<(i64, Value)>,
    last_update: i64,
    changed: usize,
}

impl Network {
    fn add(&mut self, message: Message) -> i64 {
        let count = if message.chat == CREW { CREW } else { 0 };
        let number = self.counts.entry(count).or_insert(1_000);
        *number += 1;
        self.messages.insert((message.chat, *number), message);
        *number
    }

    /// Someone writes; what does not mention a bot it is not told, in some groups.
    fn say(&mut self, chat: i64, is_told: bool) {
        let number = self.add(Message { chat, own: false, text: "well".into(), markup: Value::Null });
        self.last_update += 1;
        let kind = if chat == CREW { "supergroup" } else { "private" };
        let message = json!({ "message_id": number, "date": 1, "chat": { "id": chat, "type": kind },
            "from": { "id": 7, "first_name": "Eden" }, "text": "well" });
        if is_told {
            self.updates.push_back((self.last_update, json!({ "update_id": self.last_update, "message": message })));
        }
    }

    fn refused(said: &str) -> (u16, Value) {
        (400, json!({ "ok": false, "error_code": 400, "description": format!("Bad Request: {said}") }))
    }

    fn does(&mut self, method: &str, body: &Value) -> (u16, Value) {
        let done = |result: Value| (200, json!({ "ok": true, "result": result }));
        let (chat, number) = (body["chat_id"].as_i64().unwrap_or(0), body["message_id"].as_i64().unwrap_or(0));
        match method {
            "getMe" => done(json!({ "id": 1, "username": "chela_bot" })),
            "getUpdates" => {
                let offset = body["offset"].as_i64().unwrap_or(0);
                self.updates.retain(|(number, _)| *number >= offset);
                let limit = body["limit"].as_u64().unwrap_or(100) as usize;
                done(self.updates.iter().take(limit).map(|(_, update)| update.clone()).collect())
            }
            "sendMessage" => {
                let text = body["text"].as_str().unwrap_or_default().to_owned();
                let number = self.add(Message { chat, own: true, text, markup: body["reply_markup"].clone() });
                done(json!({ "message_id": number, "chat": { "id": chat } }))
            }
            "editMessageReplyMarkup" => match self.messages.get(&(chat, number)) {
                None => Self::refused("message to edit not found"),
                Some(message) if !message.own => Self::refused("message can't be edited"),
                Some(message) if message.markup == body["reply_markup"] => Self::refused("message is not modified: …"),
                Some(message) => {
                    self.changed += 1;
                    done(json!({ "message_id": number, "text": message.text }))
                }
            },
            _ => panic!("{method} is not asked for here"),
        }
    }
}

/// A request on its way: when Telegram does it, when its answer comes, and what that is.
struct Going {
    request: HttpRequest,
    does_ms: u64,
    answers_ms: u64,
    is_lost: bool,
    answer: Option<(u16, Value)>,
}

struct Host {
    adapter: Telegram,
    network: Network,
    random: Rng,
    now_ms: u64,
    kept: Option<State>,
    timers: BTreeMap<String, u64>,
    going: Vec<Going>,
    /// Asked for and not done; those that wait until then.
    open: BTreeMap<String, (Outbound, u64)>,
    done: BTreeSet<String>,
}

impl Host {
    fn new(seed: u64) -> Self {
        let adapter = Telegram::configure(CONFIG).expect("accepted");
        let random = Rng::with_seed(seed);
        let (network, going, timers) = (Network::default(), Vec::new(), BTreeMap::new());
        let (open, done) = (BTreeMap::new(), BTreeSet::new());
        Self { adapter, network, random, now_ms: 10_000, kept: None, timers, going, open, done }
    }

    /// One call: what it says is kept first, then done, as far as the host lives.
    fn call(&mut self, inputs: Vec<Input>, lives: bool) {
        let outputs = handle(&mut self.adapter, self.now_ms, inputs);
        if outputs.iter().any(|output| matches!(output, Output::Checkpoint)) {
            self.kept = Some(self.adapter.snapshot());
        }
        for output in outputs {
            match output {
                Output::Delivered(result) if result.retry => {
                    if let Some((_, until)) = self.open.get_mut(&result.id) {
                        *until = self.now_ms + result.retry_ms.max(1_000);
                    }
                }
                Output::Delivered(result) => {
                    assert_eq!(result.error, "", "nothing is refused here");
                    self.open.remove(&result.id);
                    self.done.insert(result.id);
                }
                Output::SetTimer(timer) => drop(self.timers.insert(timer.name, self.now_ms + timer.after_ms)),
                Output::HttpRequest(request) if lives => self.go(request),
                _ => {}
            }
        }
    }

    fn go(&mut self, request: HttpRequest) {
        let does_ms = self.now_ms + self.random.u64(1..60);
        let answers_ms = does_ms + self.random.u64(1..60);
        let is_lost = self.random.u8(0..40) == 0;
        self.going.push(Going { request, does_ms, answers_ms, is_lost, answer: None });
    }

    fn start(&mut self) {
        self.adapter = Telegram::configure(CONFIG).expect("accepted");
        if let Some(state) = self.kept.clone() {
            self.adapter.restore(state).expect("its own state");
        }
        self.timers.clear();
        let is_restored = self.kept.is_some();
        self.call(vec![Input::Started(is_restored)], true);
        let open: Vec<Input> = self.open.values().map(|(outbound, _)| Input::Deliver(outbound.clone())).collect();
        self.open.values_mut().for_each(|(_, until)| *until = u64::MAX);
        self.call(open, true);
    }

    /// Telegram does what is due; of what was cut off only some arrives.
    fn network_works(&mut self) {
        for going in &mut self.going {
            if going.answer.is_none() && going.does_ms <= self.now_ms {
                let fault = self.random.u8(0..60);
                let method = method(&going.request);
                going.answer = Some(match fault {
                    0 => (502, json!({})),
                    1 => (429, json!({ "ok": false, "error_code": 429, "parameters": { "retry_after": 1 } })),
                    _ => self.network.does(&method, &body(&going.request)),
                });
            }
        }
    }

    fn kill(&mut self) {
        for going in std::mem::take(&mut self.going) {
            // It is half out, or it is there and nobody waits for its answer.
            if going.answer.is_none() && self.random.bool() {
                self.network.does(&method(&going.request), &body(&going.request));
            }
        }
        for _ in 0..self.random.usize(0..80) {
            self.talk();
        }
        self.now_ms += self.random.u64(10..3_000);
        self.start();
    }

    fn talk(&mut self) {
        let (_, chat) = TARGETS[self.random.usize(0..TARGETS.len())];
        let is_told = chat != CREW || self.random.u8(0..4) > 0;
        self.network.say(chat, is_told);
    }

    fn step(&mut self) {
        self.now_ms += 10;
        self.network_works();
        let due: Vec<String> =
            self.timers.iter().filter(|(_, at)| **at <= self.now_ms).map(|(name, _)| name.clone()).collect();
        self.timers.retain(|_, at| *at > self.now_ms);
        let mut inputs: Vec<Input> = due.into_iter().map(Input::Timer).collect();
        let now_ms = self.now_ms;
        let (over, going) = std::mem::take(&mut self.going).into_iter().partition(|one| one.answers_ms <= now_ms);
        self.going = going;
        inputs.extend(Vec::<Going>::into_iter(over).map(answered));
        for (outbound, until) in self.open.values_mut().filter(|(_, until)| *until <= now_ms) {
            *until = u64::MAX;
            inputs.push(Input::Deliver(outbound.clone()));
        }
        if !inputs.is_empty() {
            self.call(inputs, true);
        }
    }

    fn deliver(&mut self, number: usize) {
        let (target, _) = TARGETS[self.random.usize(0..TARGETS.len())];
        // One after the other in a place, as the host does it.
        if self.open.values().any(|(outbound, _)| outbound.target == target) {
            return;
        }
        let id = format!("d{number}");
        let long = "x".repeat(if self.random.u8(0..6) == 0 { 4_200 } else { 1 });
        let question = self.random.bool().then(|| Question { id: format!("q{number}"), choices: vec!["a".into()] });
        let (text, edits) = (format!("{long}\n\nm-{number:08}"), Vec::new());
        let outbound =
            Outbound { id: id.clone(), target: target.into(), text, reply_to: String::new(), edits, question };
        self.open.insert(id, (outbound.clone(), u64::MAX));
        self.call(vec![Input::Deliver(outbound)], true);
    }
}

fn answered(going: Going) -> Input {
    let (status, body) = going.answer.filter(|_| !going.is_lost).unwrap_or((0, Value::Null));
    let error = if status == 0 { "the connection broke" } else { "" };
    Input::HttpResponse(HttpResponse {
        id: going.request.id,
        status,
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
        error: error.into(),
        refused: false,
        sent: true,
    })
}

fn text(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        _ => String::new(),
    };
    pieces.iter().map(text).collect()
}

fn method(request: &HttpRequest) -> String {
    text(&request.url).rsplit('/').next().unwrap_or_default().to_owned()
}

fn body(request: &HttpRequest) -> Value {
    serde_json::from_str(&text(&request.body)).expect("JSON")
}

/// Talks and delivers for a while with kills, then lets all of it end. Gives how many messages of the bot there are for each delivery.
fn play(seed: u64) -> (Host, usize) {
    let mut host = Host::new(seed);
    host.start();
    // Each chat has been heard of: of one that has not nothing can be told.
    TARGETS.iter().for_each(|(_, chat)| host.network.say(*chat, true));
    while !host.network.updates.is_empty() {
        host.step();
    }
    let mut given = 0;
    for _ in 0..600 {
        match host.random.u8(0..100) {
            0..3 => host.kill(),
            3..25 => host.talk(),
            25..45 => {
                host.deliver(given);
                given += usize::from(
                    host.open.contains_key(&format!("d{given}")) || host.done.contains(&format!("d{given}")),
                );
            }
            _ => {}
        }
        host.step();
    }
    for _ in 0..60_000 {
        if host.open.is_empty() {
            break;
        }
        host.step();
    }
    (host, given)
}

#[test]
fn each_message_is_there_once_whatever_is_killed_or_lost() {
    let seeds = 0..100;
    for seed in seeds {
        let (host, given) = play(seed);
        assert!(given > 0 && host.open.is_empty(), "seed {seed}: {given} given, {} left", host.open.len());
        for number in 0..given {
            let own = host.network.messages.values().filter(|message| message.own);
            let times = own.filter(|message| message.text.contains(&format!("m-{number:08}"))).count();
            assert_eq!(times, 1, "seed {seed}: message {number}");
        }
        assert_eq!(host.network.changed, 0, "seed {seed}: a look has changed a message");
        let bytes = host.adapter.snapshot().bytes.len();
        assert!(bytes < 12_000, "seed {seed}: a state of {bytes} bytes");
    }
}
