//! What a message costs in the Discord adapter, beyond the network and the disk: the component's own work, with its state for the journal; and
//! beside that the way to its thread and back. In: one frame. Out: the message to deliver, and the network's answer to it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use chela::plugins::{Adapter, Handled};
use chela_channel::{Input, Outbound, Output, Response};
use chela_crash::channels::channel;
use discord_server::{APPLICATION, BOT, CROWD, Discord, GUILD, PERSON, Setup};
use serde_json::{Map, Value, json};

use super::{A_SECOND, PLACES};
use crate::gateway::Gateway;
use crate::micros;

const MEASURE_FOR: Duration = Duration::from_secs(10);

pub fn run(binary: &Path) -> Result<Map<String, Value>> {
    eprintln!("what a message costs in the adapter …");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(binary))
}

async fn measure(binary: &Path) -> Result<Map<String, Value>> {
    let discord = Discord::with(Setup::crowded(PLACES));
    let gateway = Gateway::start(binary, |config| config["channels"] = json!({ "discord": channel(&discord) })).await?;
    let plugins = gateway.app.plugins().clone();
    let served = plugins.channels().into_iter().find(|(name, _)| name == "discord");
    let (_, version) = served.context("the channel is there")?;
    let version = version.map_err(|said| anyhow!("it is not served: {said}"))?;
    let mut adapter = plugins.adapter("discord", &version, None).await?;
    let connection = connect(&mut adapter).await?;
    let (mut took_in, mut took_out, mut with_hops) = (Vec::new(), Vec::new(), Vec::new());
    let started = Instant::now();
    for number in 0_u64.. {
        if started.elapsed() >= MEASURE_FOR {
            break;
        }
        let begun = Instant::now();
        let answered = adapter.handle(vec![message(&connection, number)], number, false).await?;
        with_hops.push(begun.elapsed());
        took_in.push(answered.took);
        let inbound = answered.outputs.iter().any(|output| matches!(output, Output::Inbound(_)));
        ensure!(inbound && answered.state.is_some(), "a message is taken and kept");
        took_out.push(deliver(&mut adapter, number).await?);
        let due = started + Duration::from_secs(1) * u32::try_from(number + 1)? / A_SECOND;
        tokio::time::sleep_until(due.into()).await;
    }
    gateway.stop().await?;
    let mut figures = Map::new();
    let (cost_in, cost_out) = (micros(&mut took_in, 0.99), micros(&mut took_out, 0.99));
    figures.insert("adapter_in_p50_us".into(), json!(micros(&mut took_in, 0.5)));
    figures.insert("adapter_in_p99_us".into(), json!(cost_in));
    figures.insert("adapter_out_p50_us".into(), json!(micros(&mut took_out, 0.5)));
    figures.insert("adapter_out_p99_us".into(), json!(cost_out));
    figures.insert("adapter_p99_us".into(), json!(cost_in.max(cost_out)));
    figures.insert("adapter_with_hop_p50_us".into(), json!(micros(&mut with_hops, 0.5)));
    figures.insert("adapter_with_hop_p99_us".into(), json!(micros(&mut with_hops, 0.99)));
    Ok(figures)
}

/// A frame of the gateway, on its only connection.
fn frame(connection: &str, frame: &Value) -> Input {
    Input::Text { connection: connection.to_owned(), data: frame.to_string() }
}

/// To where messages come; gives the connection's name.
async fn connect(adapter: &mut Adapter) -> Result<String> {
    let Handled { outputs, .. } = adapter.handle(vec![Input::Started { restored: false }], 1, false).await?;
    let opened = outputs.into_iter().find_map(|output| match output {
        Output::Open(open) => Some(open.connection),
        _ => None,
    });
    let connection = opened.context("it opens a socket")?;
    let channels: Vec<Value> = (CROWD..CROWD + PLACES)
        .map(|id| json!({ "id": id.to_string(), "type": 0, "name": format!("crowd-{id}") }))
        .collect();
    let ready = json!({
        "v": 10, "user": { "id": BOT.to_string(), "username": "chela", "bot": true }, "session_id": "s",
        "resume_gateway_url": "ws://127.0.0.1", "application": { "id": APPLICATION.to_string() }, "guilds": [],
    });
    let frames = [
        json!({ "op": 10, "d": { "heartbeat_interval": 41_250 } }),
        json!({ "op": 0, "t": "READY", "s": 1, "d": ready }),
        json!({ "op": 0, "t": "GUILD_CREATE", "s": 2, "d": { "id": GUILD.to_string(), "channels": channels } }),
    ];
    let inputs = std::iter::once(Input::Opened { connection: connection.clone() })
        .chain(frames.iter().map(|one| frame(&connection, one)));
    // Its commands are registered once; the network takes them.
    let Handled { outputs, .. } = adapter.handle(inputs.collect(), 2, false).await?;
    let asked = outputs.into_iter().filter_map(|output| match output {
        Output::Request(request) => Some(Input::Response(answer(request.id, &json!([])))),
        _ => None,
    });
    adapter.handle(asked.collect(), 3, false).await?;
    Ok(connection)
}

fn message(connection: &str, number: u64) -> Input {
    let author = json!({ "id": PERSON.to_string(), "username": "eden_", "global_name": "Eden" });
    let bot = json!({ "id": BOT.to_string(), "username": "chela", "bot": true });
    let data = json!({
        "id": (1_000_000 + number).to_string(), "type": 0, "channel_id": (CROWD + number % PLACES).to_string(),
        "guild_id": GUILD.to_string(), "author": author, "member": { "roles": [], "nick": null },
        "content": format!("<@{BOT}> what is new in the deployment of today, number {number}?"), "mentions": [bot],
        "mention_roles": [], "attachments": [], "embeds": [], "timestamp": "2026-01-01T00:00:00.000000+00:00",
    });
    frame(connection, &json!({ "op": 0, "t": "MESSAGE_CREATE", "s": number + 3, "d": data }))
}

/// A reply goes out, and the network takes it; how long the adapter took for both.
async fn deliver(adapter: &mut Adapter, number: u64) -> Result<Duration> {
    let outbound = Outbound {
        id: format!("discord:{number}"),
        target: format!("channel:{}", CROWD + number % PLACES),
        text: "All of it went well; the two failed checks were run again and passed.".into(),
        reply_to: (1_000_000 + number).to_string(),
        edits: Vec::new(),
        question: None,
    };
    let asked = adapter.handle(vec![Input::Deliver(outbound)], number, false).await?;
    let mut took = asked.took;
    let mut requests = asked.outputs.into_iter().filter_map(|output| match output {
        Output::Request(request) => Some(request),
        _ => None,
    });
    let request = requests.find(|request| request.method == "POST").context("it asks for a message")?;
    let response = answer(request.id, &json!({ "id": (9_000_000 + number).to_string() }));
    let answered = adapter.handle(vec![Input::Response(response)], number, false).await?;
    took += answered.took;
    let done =
        answered.outputs.iter().any(|output| matches!(output, Output::Delivered(result) if result.error.is_empty()));
    ensure!(done && answered.state.is_some(), "it is delivered, and that is kept");
    Ok(took)
}

fn answer(id: String, body: &Value) -> Response {
    let limits =
        [("x-ratelimit-limit", "1000000"), ("x-ratelimit-remaining", "999999"), ("x-ratelimit-reset-after", "5.000")];
    Response {
        id,
        status: 200,
        headers: limits.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body: body.to_string().into_bytes(),
        error: String::new(),
        refused: false,
        sent: true,
    }
}
