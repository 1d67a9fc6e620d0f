//! Discord's marks in people's texts, turned into names; and what our own messages may ping.

use serde_json::{Value, json};

use crate::config::Config;
use crate::names::Names;
use crate::wire;

/// Longer marks are none.
const MARK_MAX: usize = 120;

/// What a text is read with: the people that it mentions, as the message names them, and the bot itself.
pub struct Reader<'a> {
    pub names: &'a Names,
    pub people: &'a Value,
    pub me: u64,
}

impl Reader<'_> {
    /// The text with names for marks. A mark of the bot at the start is left out: it only says whom the text is for.
    pub fn read(&self, text: &str) -> String {
        let mut read = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            read.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let mark = after.find('>').filter(|end| *end <= MARK_MAX).map(|end| &after[..end]);
            match mark.and_then(|mark| self.name_of(mark).map(|name| (mark, name))) {
                Some((mark, name)) => {
                    let is_call = read.trim().is_empty() && self.is_me(mark);
                    if !is_call {
                        read.push_str(&name);
                    }
                    rest = &after[mark.len() + 1..];
                }
                None => {
                    read.push('<');
                    rest = after;
                }
            }
        }
        read.push_str(rest);
        read.trim().to_owned()
    }

    fn is_me(&self, mark: &str) -> bool {
        let id = |prefix: &str| mark.strip_prefix(prefix).and_then(|id| id.parse().ok());
        id("@!").or_else(|| id("@")) == Some(self.me) || id("@&").is_some_and(|role| self.names.is_own_role(role))
    }

    /// What stands between `<` and `>`, as a name; none when it is no mark of Discord.
    fn name_of(&self, mark: &str) -> Option<String> {
        let id = |text: &str| text.parse::<u64>().ok();
        if let Some(role) = mark.strip_prefix("@&") {
            let role = id(role)?;
            return Some(format!("@{}", self.names.role(role).map_or_else(|| role.to_string(), str::to_owned)));
        }
        if let Some(person) = mark.strip_prefix("@!").or_else(|| mark.strip_prefix('@')) {
            return id(person).map(|person| format!("@{}", self.person(person)));
        }
        if let Some(channel) = mark.strip_prefix('#') {
            let channel = id(channel)?;
            let known = self.names.place(channel).map(|place| place.name.clone());
            return Some(format!("#{}", known.unwrap_or_else(|| channel.to_string())));
        }
        if let Some(command) = mark.strip_prefix('/') {
            let (name, number) = command.rsplit_once(':')?;
            return id(number).map(|_| format!("/{name}"));
        }
        let emoji = mark.strip_prefix("a:").or_else(|| mark.strip_prefix(':'))?;
        let (name, number) = emoji.split_once(':')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        id(number).filter(|_| is_name).map(|_| format!(":{name}:"))
    }

    fn person(&self, id: u64) -> String {
        let found = wire::list(self.people, 100).find(|person| wire::id(&person["id"]) == Some(id));
        found.map_or_else(|| id.to_string(), |person| display_name(person, &person["member"]["nick"]))
    }
}

/// What a person is called: in the server, else everywhere, else the account's name.
pub fn display_name(user: &Value, nick: &Value) -> String {
    let names = [nick, &user["global_name"], &user["username"]];
    let found = names.into_iter().map(|name| wire::name(wire::text(name))).find(|name| !name.is_empty());
    found.unwrap_or_else(|| "someone".into())
}

/// What a message of ours may ping; nobody else, whatever its text says.
pub fn allowed(config: &Config) -> Value {
    let kinds =
        [(config.mentions.everyone, "everyone"), (config.mentions.roles, "roles"), (config.mentions.users, "users")];
    let parse: Vec<&str> = kinds.into_iter().filter(|(on, _)| *on).map(|(_, kind)| kind).collect();
    json!({ "parse": parse, "replied_user": config.mentions.replied_user })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut names = Names::default();
        names.learn_guild(
            &json!({
                "channels": [{ "id": "10", "type": 0, "name": "general" }],
                "roles": [{ "id": "5", "name": "crew" }, { "id": "6", "name": "bot", "tags": { "bot_id": "1" } }],
            }),
            Some(1),
        );
        let people = json!([
            { "id": "1", "username": "chela" },
            { "id": "7", "username": "eden_", "global_name": "Eden" },
            { "id": "8", "username": "seum", "member": { "nick": "Seum\nK" } },
        ]);
        assert_eq!(Reader { names: &names, people: &people, me: 1 }.read(text), expected);
    }

    #[test]
    fn marks_become_names() {
        check("<@7> and <@!8>", "@Eden and @Seum K");
        check("<@&5> in <#10>, <#11>", "@crew in #general, #11");
        check("see </ask:99> <:crab:12> <a:wave:13>", "see /ask :crab: :wave:");
        check("hello <@1>, you", "hello @chela, you");
        check("<@404> left", "@404 left");
    }

    #[test]
    fn a_mark_of_the_bot_at_the_start_is_left_out() {
        check("<@1> what is new?", "what is new?");
        check(" <@!1>\nhi", "hi");
        check("<@&6> hi", "hi");
    }

    #[test]
    fn what_is_no_mark_stays() {
        check("a < b > c <@x> <> <@7", "a < b > c <@x> <> <@7");
        check("<t:1700000000:R> <::1> <:a b:1>", "<t:1700000000:R> <::1> <:a b:1>");
        check("@everyone", "@everyone");
    }

    #[test]
    fn everyone_is_never_pinged_unless_the_deployment_says_so() {
        let quiet = allowed(&Config::read("{}").expect("accepted"));
        assert_eq!(quiet, json!({ "parse": ["users"], "replied_user": true }));
        let loud = r#"{"mentions": {"everyone": true, "users": false, "repliedUser": false}}"#;
        let loud = allowed(&Config::read(loud).expect("accepted"));
        assert_eq!(loud, json!({ "parse": ["everyone"], "replied_user": false }));
    }
}
