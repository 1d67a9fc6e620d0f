//! Texts and bodies of adapters as JSON that people write and read: bytes are text, and a text of plain pieces is one text.
//! Never: shows a secret; a piece knows its name alone.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::words::Piece;

/// One text when nothing else is in it, else a list of its pieces.
pub(crate) fn text<S: Serializer>(pieces: &[Piece], serializer: S) -> Result<S::Ok, S::Error> {
    let literal = |piece: &Piece| match piece {
        Piece::Literal(text) => Some(text.clone()),
        Piece::Secret { .. } | Piece::Hmac { .. } => None,
    };
    if let Some(text) = pieces.iter().map(literal).collect::<Option<String>>() {
        return serializer.serialize_str(&text);
    }
    let mut list = serializer.serialize_seq(Some(pieces.len()))?;
    pieces.iter().try_for_each(|piece| list.serialize_element(&Shown(piece)))?;
    list.end()
}

struct Shown<'a>(&'a Piece);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Piece::Literal(text) => serializer.serialize_str(text),
            Piece::Secret { name, encoding } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("secret", name)?;
                map.serialize_entry("encoding", encoding)?;
                map.end()
            }
            Piece::Hmac { key, hex, over } => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("hmac", key)?;
                map.serialize_entry("hex", hex)?;
                map.serialize_entry("over", over)?;
                map.end()
            }
        }
    }
}

pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::words::{Encoding, Health, Input, Output, Piece, Response, Signed};

    fn shown(output: &Output) -> Value {
        serde_json::to_value(output).expect("plain JSON")
    }

    #[test]
    fn inputs_are_read_as_people_write_them() {
        let read = |value: Value| serde_json::from_value::<Input>(value);
        assert_eq!(read(json!({ "started": {} })).expect("an input"), Input::Started { restored: false });
        let answer = json!({ "response": { "id": "a", "status": 200, "body": "네" } });
        let expected = Response {
            id: "a".into(),
            status: 200,
            headers: Vec::new(),
            body: "네".as_bytes().to_vec(),
            error: String::new(),
            refused: false,
            sent: true,
        };
        assert_eq!(read(answer).expect("an input"), Input::Response(expected));
        assert_eq!(read(json!("stopping")).expect("an input"), Input::Stopping);
        assert!(read(json!({ "opened": { "connection": "main", "more": 1 } })).is_err());
        assert!(read(json!({ "open": {} })).is_err());
    }

    #[test]
    fn outputs_show_texts_as_texts_and_secrets_by_name() {
        let literal = |text: &str| Piece::Literal(text.into());
        let send = |data: Vec<Piece>| Output::Send { connection: "main".into(), data };
        assert_eq!(
            shown(&send(vec![literal("a"), literal("b")])),
            json!({ "send": { "connection": "main", "data": "ab" } })
        );
        let secret = Piece::Secret { name: "token".into(), encoding: Encoding::Json };
        let hmac = Piece::Hmac { key: "key".into(), hex: true, over: vec![Signed::Body] };
        assert_eq!(
            shown(&send(vec![literal("a"), secret, hmac]))["send"]["data"],
            json!(["a", { "secret": "token", "encoding": "json" }, { "hmac": "key", "hex": true, "over": ["body"] }])
        );
        let status = Output::Status { health: Health::NeedsAuth, detail: String::new() };
        assert_eq!(shown(&status), json!({ "status": { "health": "needs-auth", "detail": "" } }));
        let timer = Output::SetTimer { name: "again".into(), after_ms: 5 };
        assert_eq!(shown(&timer), json!({ "setTimer": { "name": "again", "afterMs": 5 } }));
        assert_eq!(shown(&Output::Checkpoint), json!("checkpoint"));
    }
}
