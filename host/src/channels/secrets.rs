//! Secrets of one channel: filled into typed pieces, toward granted hosts only, and cut out of whatever comes back. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chela_channel::{Encoding, Piece, Signed, Text};
use memchr::memmem;
use ring::hmac;

use crate::egress::Hosts;

/// A shorter text is no secret worth cutting out, and would be found everywhere.
const SCRUBBED_BYTES_MIN: usize = 4;

/// What a channel may tell, and to whom.
#[derive(Default)]
pub(super) struct Secrets {
    known: BTreeMap<String, Known>,
    /// What is cut out, and the name that stands there instead. The longest first: one secret may be the beginning of another.
    forms: Vec<(String, String)>,
}

struct Known {
    /// Or what to change so that it is there.
    value: Result<String, String>,
    hosts: Arc<Hosts>,
}

/// Why a text was not filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfilled {
    /// It is not granted: an operator has to decide.
    Denied(String),
    /// It is granted, and not there.
    Missing(String),
}

/// What another look at the same secrets has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Again {
    Same,
    /// Some are others now, or are there at last.
    Other,
    /// One that is in use is there no more, and why.
    Gone(String),
}

/// A text with its secrets in it. Not for any log.
pub(super) struct Filled {
    pub(super) text: String,
    /// The secrets that are in it.
    pub(super) used: Vec<String>,
}

impl Secrets {
    pub(super) fn add(&mut self, name: String, value: Result<String, String>, hosts: Hosts) {
        const ALL: [Encoding; 4] = [Encoding::Raw, Encoding::Json, Encoding::Url, Encoding::Base64];
        self.forms.retain(|(_, known)| *known != name);
        if let Some(long) = value.as_ref().ok().filter(|value| value.len() >= SCRUBBED_BYTES_MIN) {
            self.forms.extend(ALL.map(|way| (encoded(long, way), name.clone())));
        }
        self.forms.sort_by(|(a, of_a), (b, of_b)| b.len().cmp(&a.len()).then_with(|| (a, of_a).cmp(&(b, of_b))));
        self.forms.dedup();
        self.known.insert(name, Known { value, hosts: Arc::new(hosts) });
    }

    fn value(&self, name: &str) -> Result<&str, Unfilled> {
        let known = self.known.get(name);
        let known = known.ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            Unfilled::Denied(format!("the secret {shown:?} is not granted; an operator can add it to `grants.secrets`"))
        })?;
        let value = known.value.as_ref().map_err(|said| Unfilled::Missing(format!("the secret `{name}`: {said}")))?;
        match value.is_empty() {
            true => Err(Unfilled::Missing(format!("the secret `{name}` is empty"))),
            false => Ok(value),
        }
    }

    /// What has become of these, if `found` is what is there now.
    pub(super) fn again(&self, found: &Self) -> Again {
        let mut again = Again::Same;
        for name in found.known.keys() {
            match (self.value(name), found.value(name)) {
                (Ok(was), Ok(is)) if was == is => {}
                (_, Ok(_)) => again = Again::Other,
                (Ok(_), Err(Unfilled::Missing(said))) => return Again::Gone(said),
                (_, Err(_)) => {}
            }
        }
        again
    }

    /// Fills a text in; `body` is what a signature may be over.
    pub(super) fn fill(&self, text: &Text, body: Option<&str>) -> Result<Filled, Unfilled> {
        let mut filled = Filled { text: String::new(), used: Vec::new() };
        for piece in text {
            match piece {
                Piece::Literal(text) => filled.text.push_str(text),
                Piece::Secret { name, encoding } => {
                    filled.text.push_str(&encoded(self.value(name)?, *encoding));
                    filled.used.push(name.clone());
                }
                Piece::Hmac { key, hex, over } => {
                    let mut signed = String::new();
                    for part in over {
                        match part {
                            Signed::Literal(text) => signed.push_str(text),
                            Signed::Secret { name, encoding } => {
                                signed.push_str(&encoded(self.value(name)?, *encoding));
                                filled.used.push(name.clone());
                            }
                            Signed::Body => signed.push_str(body.ok_or_else(|| {
                                Unfilled::Denied("a signature over a body stands only in a header beside one".into())
                            })?),
                        }
                    }
                    let key_value = hmac::Key::new(hmac::HMAC_SHA256, self.value(key)?.as_bytes());
                    let tag = hmac::sign(&key_value, signed.as_bytes());
                    filled.text.push_str(&match hex {
                        true => tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                        false => STANDARD.encode(tag.as_ref()),
                    });
                    filled.used.push(key.clone());
                }
            }
        }
        Ok(filled)
    }

    /// Whether these secrets may be told to the host of an address.
    pub(super) fn may_tell(&self, used: &[String], url: &str) -> Result<(), Unfilled> {
        for name in used {
            if !self.known.get(name).is_some_and(|known| known.hosts.allows(url)) {
                let said = format!("the secret `{name}` is not granted for this host; its `hosts` say which it is for");
                return Err(Unfilled::Denied(said));
            }
        }
        Ok(())
    }

    /// The text without any secret.
    pub(super) fn scrub_text(&self, text: &str) -> String {
        match self.is_in(text.as_bytes()) {
            false => text.to_owned(),
            true => String::from_utf8_lossy(&self.scrubbed(text.as_bytes())).into_owned(),
        }
    }

    pub(super) fn scrub(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_in(&bytes) { self.scrubbed(&bytes) } else { bytes }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|(form, _)| memmem::find(bytes, form.as_bytes()).is_some())
    }

    fn scrubbed(&self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = bytes.to_vec();
        for (form, name) in &self.forms {
            let mut out = Vec::with_capacity(clean.len());
            let mut rest = clean.as_slice();
            while let Some(at) = memmem::find(rest, form.as_bytes()) {
                out.extend_from_slice(&rest[..at]);
                out.extend_from_slice(format!("[{name}]").as_bytes());
                rest = &rest[at + form.len()..];
            }
            out.extend_from_slice(rest);
            clean = out;
        }
        clean
    }
}

fn encoded(value: &str, encoding: Encoding) -> String {
    match encoding {
        Encoding::Raw => value.to_owned(),
        Encoding::Json => {
            let quoted = serde_json::Value::String(value.to_owned()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        Encoding::Url => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
            let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
            value.bytes().map(one).collect()
        }
        Encoding::Base64 => STANDARD.encode(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        let hosts = || Hosts::new(["chat.example"].into_iter(), "grants.hosts");
        secrets.add("token".into(), Ok("t\"ken/1".into()), hosts());
        secrets.add("gone".into(), Err("cannot read it".into()), hosts());
        secrets
    }

    fn secret(name: &str, encoding: Encoding) -> Piece {
        Piece::Secret { name: name.into(), encoding }
    }

    #[test]
    fn a_secret_is_written_as_its_place_needs_it() {
        let check = |encoding, expected: &str| {
            let text = vec![Piece::Literal("a ".into()), secret("token", encoding)];
            assert_eq!(secrets().fill(&text, None).expect("filled").text, format!("a {expected}"));
        };
        check(Encoding::Raw, "t\"ken/1");
        check(Encoding::Json, "t\\\"ken/1");
        check(Encoding::Url, "t%22ken%2F1");
        check(Encoding::Base64, "dCJrZW4vMQ==");
        let signed =
            Piece::Hmac { key: "token".into(), hex: true, over: vec![Signed::Literal("v0:".into()), Signed::Body] };
        let filled = secrets().fill(&vec![signed.clone()], Some("body")).expect("filled");
        assert_eq!((filled.text.len(), filled.used), (64, vec!["token".to_owned()]));
        assert!(matches!(secrets().fill(&vec![signed], None), Err(Unfilled::Denied(_))));
    }

    #[test]
    fn what_is_not_granted_or_not_there_is_not_filled_in() {
        let fill = |name| secrets().fill(&vec![secret(name, Encoding::Raw)], None).map(|filled| filled.text);
        assert!(matches!(fill("other"), Err(Unfilled::Denied(_))));
        assert!(matches!(fill("gone"), Err(Unfilled::Missing(said)) if said.contains("cannot read it")));
        let used = ["token".to_owned()];
        assert_eq!(secrets().may_tell(&used, "https://chat.example/x"), Ok(()));
        assert_eq!(secrets().may_tell(&used, "wss://chat.example/x"), Ok(()));
        assert!(secrets().may_tell(&used, "https://evil.example/").is_err());
        assert!(secrets().may_tell(&[], "https://evil.example/").is_ok());
    }

    #[test]
    fn another_look_tells_what_is_other_and_what_is_gone() {
        let check = |was: [Result<&str, &str>; 2], is: [Result<&str, &str>; 2], expected: Again| {
            let of = |values: [Result<&str, &str>; 2]| {
                let mut secrets = Secrets::default();
                for (name, value) in ["a", "b"].into_iter().zip(values) {
                    let hosts = Hosts::new(["chat.example"].into_iter(), "grants.hosts");
                    secrets.add(name.into(), value.map(str::to_owned).map_err(str::to_owned), hosts);
                }
                secrets
            };
            assert_eq!(of(was).again(&of(is)), expected, "{was:?} {is:?}");
        };
        let gone = || Again::Gone("the secret `a`: no file".into());
        check([Ok("one"), Ok("two")], [Ok("one"), Ok("two")], Again::Same);
        check([Ok("one"), Ok("two")], [Ok("one"), Ok("three")], Again::Other);
        check([Err("no file"), Ok("two")], [Ok("one"), Ok("two")], Again::Other);
        check([Err("no file"), Ok("two")], [Err("no rights"), Ok("two")], Again::Same);
        check([Ok("one"), Ok("two")], [Err("no file"), Ok("two")], gone());
        check([Ok("one"), Ok("two")], [Err("no file"), Ok("three")], gone());
        check([Ok("one"), Ok("two")], [Ok("one"), Ok("")], Again::Gone("the secret `b` is empty".into()));
    }

    #[test]
    fn what_comes_back_has_no_secret_in_any_form() {
        let check = |text: &str, expected: &str| assert_eq!(secrets().scrub_text(text), expected);
        check("bad token t\"ken/1!", "bad token [token]!");
        check(r#"{"said":"t\"ken/1"}"#, r#"{"said":"[token]"}"#);
        check("?a=t%22ken%2F1&b", "?a=[token]&b");
        check("dCJrZW4vMQ==", "[token]");
        check("nothing", "nothing");
    }

    #[test]
    fn of_a_secret_that_begins_like_another_nothing_is_left() {
        let check = |names: [&str; 2], text: &str, expected: &str| {
            let [short, long] = names;
            let mut secrets = Secrets::default();
            let hosts = || Hosts::new(["chat.example"].into_iter(), "grants.hosts");
            secrets.add(short.into(), Ok("hush".into()), hosts());
            secrets.add(long.into(), Ok("hush-hush/4711".into()), hosts());
            assert_eq!(secrets.scrub_text(text), expected);
            assert_eq!(secrets.scrub(text.into()), expected.as_bytes());
        };
        for names in [["a", "b"], ["b", "a"]] {
            let [short, long] = names;
            let both = "hush-hush/4711, hush-hush%2F4711 and hush";
            check(names, both, &format!("[{long}], [{long}] and [{short}]"));
        }
    }
}
