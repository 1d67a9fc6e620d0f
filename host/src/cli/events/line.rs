//! An event on a line of a terminal.

use serde_json::Value;

use crate::cli::output::{columns, fit, pad, plain, time, word, words};
use crate::clock::{Clock, Timestamp};

const TIME: usize = 16;
const TYPE: usize = 20;
const WHO: usize = 18;
/// A whole id, `ws_` and a UUID.
const SESSION: usize = 39;
/// An id of which only the beginning is shown.
const SESSION_SHORT: usize = 13;
/// From here on there is room for a session beside the message.
const WIDE: usize = 110;
/// Of a long message, even where nobody counts columns.
const MESSAGE_MAX: usize = 200;

/// Where an event says something, the best first.
const TEXTS: &[&str] = &[
    "message",
    "replyPreview",
    "question",
    "label",
    "title",
    "description",
    "blockedReason",
    "reason",
    "error",
    "problem",
    "status",
    "outcome",
];

/// How the columns are shared out.
pub(super) struct Layout {
    /// None: nothing is cut but the message.
    columns: Option<usize>,
    session: Option<usize>,
    now: Timestamp,
}

impl Layout {
    pub(super) fn of_terminal() -> Self {
        Self::new(columns(), Clock::system().now())
    }

    fn new(columns: Option<usize>, now: Timestamp) -> Self {
        let session = match columns {
            None => Some(SESSION),
            Some(columns) if columns >= WIDE + SESSION => Some(SESSION),
            Some(columns) if columns >= WIDE => Some(SESSION_SHORT),
            Some(_) => None,
        };
        Self { columns, session, now }
    }

    /// Lines under a head.
    pub(super) fn page(&self, events: &[Value]) -> String {
        format!("{}\n{}", self.head(), self.lines(events))
    }

    pub(super) fn head(&self) -> String {
        self.line(["TIME (UTC)", "TYPE", "WHO", "WORK SESSION", "MESSAGE"].map(str::to_owned))
    }

    pub(super) fn lines(&self, events: &[Value]) -> String {
        let line = |event: &Value| {
            self.line([
                time(&event["ts"], self.now),
                word(&event["type"]),
                who(event),
                word(&event["data"]["workSessionId"]),
                message(event),
            ])
        };
        events.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, [time, kind, who, session, message]: [String; 5]) -> String {
        let mut line = pad(&time, TIME);
        let mut left = self.columns.map(|columns| columns.saturating_sub(TIME));
        let cells = [(kind, Some(TYPE)), (who, Some(WHO)), (session, self.session)];
        for (cell, width) in cells.into_iter().filter_map(|(cell, width)| Some((cell, width?))) {
            let cell = if self.columns.is_some() { fit(&cell, width) } else { cell };
            line.push_str(&format!("  {}", pad(&cell, width)));
            left = left.map(|left| left.saturating_sub(width + 2));
        }
        let room = left.map_or(MESSAGE_MAX, |left| left.saturating_sub(2).min(MESSAGE_MAX));
        line.push_str(&format!("  {}", fit(&message, room)));
        let line = line.trim_end();
        self.columns.map_or_else(|| line.to_owned(), |columns| fit(line, columns))
    }
}

/// `eden -> seum`, or the one who did it.
pub(in crate::cli) fn who(event: &Value) -> String {
    let data = &event["data"];
    let of_key = |key: &Value| key.as_str()?.strip_prefix("agent:")?.split(':').next().map(str::to_owned);
    let name = |name: &str, keys: &[&str]| {
        let named = data[name].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        named.or_else(|| keys.iter().find_map(|key| of_key(&data[*key])))
    };
    let from = name("fromAgent", &["fromSessionKey", "requesterSessionKey", "sessionKey"]);
    let to = name("toAgent", &["targetSessionKey", "childSessionKey"]);
    let agent = || event["agentId"].as_str().unwrap_or("-").to_owned();
    let text = match (from, to) {
        (from, Some(to)) => format!("{} -> {to}", from.unwrap_or_else(agent)),
        (_, None) => agent(),
    };
    plain(&text)
}

/// What an event says, in one line.
pub(in crate::cli) fn message(event: &Value) -> String {
    let data = &event["data"];
    let text = match event["type"].as_str().unwrap_or_default() {
        "policy.decided" => {
            let by = data["plugin"]["name"].as_str().unwrap_or("the gateway itself");
            format!("{} {} by {by}: {}", word(&data["slot"]), word(&data["export"]), data["answer"])
        }
        kind if kind.starts_with("plugin.") => {
            let plugin = &data["plugin"];
            let said = [&data["slot"], &plugin["name"], &plugin["version"], &data["reason"]].map(word);
            said.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        }
        "config.applied" => words(&data["changed"]),
        "config.refused" => data["problems"][0]["message"].as_str().unwrap_or_default().to_owned(),
        _ => TEXTS.iter().map(|name| word(&data[*name])).find(|text| !text.trim().is_empty()).unwrap_or_default(),
    };
    let text = if text.is_empty() { word(&data["taskId"]) } else { text };
    plain(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use unicode_width::UnicodeWidthStr;

    fn event() -> Value {
        json!({ "type": "a2a.send", "agentId": "eden", "ts": 1_794_821_400_000_u64, "data": {
            "fromAgent": "이든", "toAgent": "세움", "workSessionId": "ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042",
            "message": "배포를 부탁해요.\n\u{1b}[2J배포 후 장애 대응이 필요합니다. 배포 후 장애 대응이 필요합니다. 배포 후 장애 대응이 필요합니다.",
        }})
    }

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        for columns in [1, 40, 60, 80, 100, 110, 120, 149, 200] {
            let layout = Layout::new(Some(columns), Timestamp(0));
            for line in layout.page(&[event()]).lines() {
                assert!(line.width() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn columns_stand_under_each_other_in_korean_too() {
        let layout = Layout::new(Some(80), Timestamp(1_794_821_400_000));
        let text = layout.page(&[event()]);
        assert_eq!(
            text,
            "TIME (UTC)        TYPE                  WHO                 MESSAGE\n\
             11-16 09:30:00    a2a.send              이든 -> 세움        배포를 부탁해요. [2…"
        );
        let wide = Layout::new(None, Timestamp(0)).lines(&[event()]);
        assert!(wide.contains("ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042  배포를 부탁해요. [2J배포 후"), "{wide}");
    }

    #[test]
    fn whoever_has_no_name_is_known_by_its_session() {
        let check =
            |data: Value, expected: &str| assert_eq!(who(&json!({ "agentId": "eden", "data": data })), expected);
        check(json!({}), "eden");
        check(json!({ "toAgent": "seum" }), "eden -> seum");
        check(json!({ "sessionKey": "agent:ieum:main", "targetSessionKey": "agent:nuri:subagent:1" }), "ieum -> nuri");
        check(json!({ "sessionKey": "agent:ieum:main" }), "eden");
    }
}
