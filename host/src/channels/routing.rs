//! Which agent hears a message, and in which session. Pure.

use chela_channel::{Inbound, Wants};

use crate::config::{Agent, AgentRole, Channel, Config};
use crate::id::AgentId;
use crate::session_key::SessionKey;

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Routed {
    pub(super) session: SessionKey,
    pub(super) text: String,
}

/// Why nobody hears it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    /// It is not meant for anybody here.
    NotMeant,
    /// Somebody has to change something.
    Refused(String),
}

pub(super) fn route(config: &Config, name: &str, message: &Inbound) -> Result<Routed, Unheard> {
    let own = Channel::default();
    let routing = &config.channels.get(name).unwrap_or(&own).routing;
    let spoken_to = message.direct || message.addressed || !routing.addressed_only;
    let says_nothing = message.text.trim().is_empty() && !matches!(message.wants, Wants::Command(_));
    if !spoken_to || says_nothing {
        return Err(Unheard::NotMeant);
    }
    let (mentioned, rest) = match routing.mentions {
        true => mention(config, &message.text),
        false => (None, &*message.text),
    };
    let place = message.target.split(':').nth(1).unwrap_or_default();
    let agent = named(config, &message.agent)
        .or(mentioned)
        .or_else(|| known(config, routing.peers.get(&message.sender_id)))
        .or_else(|| known(config, routing.channels.get(place)))
        .or_else(|| known(config, routing.agent.as_ref()))
        .or_else(|| known(config, config.agents.default_id()));
    let agent = agent.ok_or_else(|| Unheard::Refused("no agent is there to hear it".into()))?;
    let heard = heard_by(config, agent);
    let tail = if message.target.starts_with("direct:") {
        message.target.clone()
    } else {
        format!("{name}:{}", message.target)
    };
    let session = SessionKey::of(heard.clone(), &tail).map_err(|error| Unheard::Refused(error.to_string()))?;
    let text = if mentioned.is_some() && !rest.trim().is_empty() { rest.trim() } else { message.text.trim() };
    Ok(Routed { session, text: clip(text, config.runs.message_bytes) })
}

/// Who hears what is said at a place, as far as the place alone tells it.
pub(super) fn hearer(config: &Config, name: &str, target: &str) -> Option<AgentId> {
    let own = Channel::default();
    let routing = &config.channels.get(name).unwrap_or(&own).routing;
    let place = target.split(':').nth(1).unwrap_or_default();
    let of_place = if target.starts_with("direct:") { routing.peers.get(place) } else { routing.channels.get(place) };
    let agent = known(config, of_place)
        .or_else(|| known(config, routing.agent.as_ref()))
        .or_else(|| known(config, config.agents.default_id()))?;
    Some(heard_by(config, agent).clone())
}

/// People of a worker are heard by whom it works for.
fn heard_by<'a>(config: &'a Config, agent: &'a Agent) -> &'a AgentId {
    match agent.role {
        AgentRole::Worker => config.orchestrator_of(agent).unwrap_or(&agent.id),
        AgentRole::Orchestrator | AgentRole::Agent => &agent.id,
    }
}

fn known<'a>(config: &'a Config, id: Option<&AgentId>) -> Option<&'a Agent> {
    config.agents.list.iter().find(|agent| Some(&agent.id) == id)
}

/// An agent by its id, or by the name that people know.
pub(super) fn named<'a>(config: &'a Config, name: &str) -> Option<&'a Agent> {
    let name = name.trim().to_lowercase();
    let is_it = |agent: &&Agent| agent.id.as_ref() == name || agent.display_name().to_lowercase() == name;
    (!name.is_empty()).then(|| config.agents.list.iter().find(is_it)).flatten()
}

/// Who is asked for by `@NAME` at the beginning, and what is said then.
fn mention<'a>(config: &'a Config, text: &'a str) -> (Option<&'a Agent>, &'a str) {
    let Some(rest) = text.trim_start().strip_prefix('@') else { return (None, text) };
    let ends = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | ':')).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(ends);
    (named(config, name), rest.trim_start_matches([',', ':']))
}

/// Agents that a text of another agent speaks to by `@NAME`, each once.
pub(super) fn mentioned<'a>(config: &'a Config, text: &str) -> Vec<&'a AgentId> {
    let mut found: Vec<&AgentId> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '@' | '`' | '/')) {
            continue;
        }
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let name: String = text[at + 1..].chars().take_while(|c| plain(*c)).take(64).collect();
        if let Some(agent) = named(config, &name).filter(|agent| !found.contains(&&agent.id)) {
            found.push(&agent.id);
        }
    }
    found
}

/// At most so many bytes, with a sign that there was more.
fn clip(text: &str, bytes_max: usize) -> String {
    const MORE: &str = " … (cut)";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max.saturating_sub(MORE.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn config() -> Config {
        parse(
            "{gateway:{auth:{token:'0123456789abcdef'}},
              agents:{default:'ruda',list:[
                {id:'ruda',role:'orchestrator'},{id:'eden',role:'worker'},{id:'seum',role:'agent',identity:{name:'세움'}}]},
              channels:{chat:{routing:{peers:{'9':'seum'},channels:{'42':'seum'}}}}}",
        )
        .expect("a configuration")
    }

    fn message(text: &str) -> Inbound {
        Inbound {
            id: "1".into(),
            wants: Wants::Message,
            target: "channel:7".into(),
            session: String::new(),
            direct: false,
            space: String::new(),
            sender_id: "1".into(),
            sender_name: "Mina".into(),
            sender_is_bot: false,
            addressed: true,
            agent: String::new(),
            text: text.into(),
            reply_to: String::new(),
        }
    }

    fn check(message: Inbound, expected: Result<(&str, &str), Unheard>) {
        let routed = route(&config(), "chat", &message).map(|routed| (routed.session.to_string(), routed.text));
        assert_eq!(routed, expected.map(|(session, text)| (session.to_owned(), text.to_owned())), "{message:?}");
    }

    #[test]
    fn a_message_is_heard_by_whom_it_is_meant_for() {
        check(message("hi"), Ok(("agent:ruda:chat:channel:7", "hi")));
        check(Inbound { sender_id: "9".into(), ..message("hi") }, Ok(("agent:seum:chat:channel:7", "hi")));
        let thread = Inbound { target: "channel:42:thread:5".into(), ..message("hi") };
        check(thread, Ok(("agent:seum:chat:channel:42:thread:5", "hi")));
        let direct = Inbound { target: "direct:1".into(), direct: true, addressed: false, ..message("hi") };
        check(direct, Ok(("agent:ruda:direct:1", "hi")));
        check(message("@세움: build it"), Ok(("agent:seum:chat:channel:7", "build it")));
        check(message("@SEUM"), Ok(("agent:seum:chat:channel:7", "@SEUM")));
        check(message("@nobody hi"), Ok(("agent:ruda:chat:channel:7", "@nobody hi")));
        check(Inbound { agent: "seum".into(), ..message("@ruda hi") }, Ok(("agent:seum:chat:channel:7", "hi")));
        check(message("@eden hi"), Ok(("agent:ruda:chat:channel:7", "hi")));
        // To which programs it listens is the adapter's to say.
        check(Inbound { sender_is_bot: true, ..message("hi") }, Ok(("agent:ruda:chat:channel:7", "hi")));
    }

    #[test]
    fn whoever_hears_a_place_is_known_before_anything_is_said_there() {
        let check = |target: &str, expected: &str| {
            assert_eq!(hearer(&config(), "chat", target).expect("an agent").as_ref(), expected, "{target}");
        };
        check("channel:7", "ruda");
        check("channel:42:thread:5", "seum");
        check("direct:9", "seum");
        check("direct:1", "ruda");
    }

    #[test]
    fn what_is_meant_for_nobody_is_left_alone() {
        check(Inbound { addressed: false, ..message("hi") }, Err(Unheard::NotMeant));
        check(message("  "), Err(Unheard::NotMeant));
    }

    #[test]
    fn a_long_message_is_cut_at_a_letter() {
        let long = "가".repeat(1_000_000);
        let routed = route(&config(), "chat", &message(&long)).expect("routed");
        assert!(routed.text.len() <= config().runs.message_bytes && routed.text.ends_with("… (cut)"));
    }

    #[test]
    fn agents_that_a_text_speaks_to_are_found_once_each() {
        let check = |text: &str, expected: &[&str]| {
            let config = config();
            let found: Vec<&str> = mentioned(&config, text).into_iter().map(AsRef::as_ref).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("@seum please, and @세움 again, then @eden.", &["seum", "eden"]);
        check("mail a@seum or `@seum` or @@seum or @nobody", &[]);
    }
}
