//! A client that proves who it is by a key pair: its signature over the challenge, and the token that it gets for later.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, UnparsedPublicKey};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::clock::Timestamp;
use crate::settings::{Principal, Seal, Tokens};

/// How far the time of a signature may be from ours.
const SKEW_MS: u64 = 120_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Device {
    /// The SHA-256 of the public key, in hexadecimal.
    #[schemars(length(min = 1, max = 128))]
    pub(super) id: String,
    #[schemars(length(min = 1, max = 128))]
    public_key: String,
    #[schemars(length(min = 1, max = 256))]
    signature: String,
    signed_at: u64,
    #[schemars(length(max = 128))]
    nonce: String,
}

/// What else a device signs.
pub(super) struct Signed<'a> {
    pub(super) client_id: &'a str,
    pub(super) mode: &'a str,
    pub(super) role: &'a str,
    pub(super) scopes: &'a [String],
    pub(super) token: &'a str,
    pub(super) platform: &'a str,
    pub(super) family: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("device public key invalid")]
    PublicKey,
    #[error("device identity mismatch")]
    Id,
    #[error("device nonce required")]
    NonceMissing,
    #[error("device nonce mismatch")]
    Nonce,
    #[error("device signature expired")]
    Stale,
    #[error("device signature invalid")]
    Signature,
}

impl Wrong {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::PublicKey => "DEVICE_AUTH_PUBLIC_KEY_INVALID",
            Self::Id => "DEVICE_AUTH_DEVICE_ID_MISMATCH",
            Self::NonceMissing => "DEVICE_AUTH_NONCE_REQUIRED",
            Self::Nonce => "DEVICE_AUTH_NONCE_MISMATCH",
            Self::Stale => "DEVICE_AUTH_SIGNATURE_EXPIRED",
            Self::Signature => "DEVICE_AUTH_SIGNATURE_INVALID",
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::PublicKey => "device-public-key",
            Self::Id => "device-id-mismatch",
            Self::NonceMissing => "device-nonce-missing",
            Self::Nonce => "device-nonce-mismatch",
            Self::Stale => "device-signature-stale",
            Self::Signature => "device-signature",
        }
    }
}

impl Device {
    /// Whether the signature is this device's, over this challenge, and fresh.
    pub(super) fn verify(&self, signed: &Signed<'_>, nonce: &str, now: Timestamp) -> Result<(), Wrong> {
        let key =
            URL_SAFE_NO_PAD.decode(&self.public_key).ok().filter(|key| key.len() == 32).ok_or(Wrong::PublicKey)?;
        if hex(&Sha256::digest(&key)) != self.id {
            return Err(Wrong::Id);
        }
        match self.nonce.as_str() {
            "" => return Err(Wrong::NonceMissing),
            given if given != nonce => return Err(Wrong::Nonce),
            _ => {}
        }
        if now.0.abs_diff(self.signed_at) > SKEW_MS {
            return Err(Wrong::Stale);
        }
        let signature = URL_SAFE_NO_PAD.decode(&self.signature).map_err(|_| Wrong::Signature)?;
        let key = UnparsedPublicKey::new(&ED25519, &key);
        let is_signed = |text: String| key.verify(text.as_bytes(), &signature).is_ok();
        if is_signed(self.text("v3", signed)) || is_signed(self.text("v2", signed)) {
            return Ok(());
        }
        Err(Wrong::Signature)
    }

    fn text(&self, version: &str, signed: &Signed<'_>) -> String {
        let Signed { client_id, mode, role, scopes, token, platform, family } = signed;
        let (id, scopes, at, nonce) = (&self.id, scopes.join(","), self.signed_at, &self.nonce);
        let text = format!("{version}|{id}|{client_id}|{mode}|{role}|{scopes}|{at}|{token}|{nonce}");
        match version {
            "v2" => text,
            _ => format!("{text}|{}|{}", platform.to_lowercase(), family.to_lowercase()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token for one device and role. Sealed with the token that it was got with, so nothing is stored: it may what that one may, and ends with it.
pub(super) struct DeviceToken {
    holder: String,
    seal: blake3::Hash,
}

impl DeviceToken {
    /// The token of a device that came with the token of `holder`.
    pub(super) fn of(tokens: &Tokens, device: &str, role: &str, holder: &str) -> Option<Self> {
        let (_, seal) = tokens.seal(Seal::Device, holder, &format!("{device}|{role}"))?;
        Some(Self { holder: holder.to_owned(), seal })
    }

    /// Whose token a presented one was got with, if it is this device's.
    pub(super) fn holder_of(tokens: &Tokens, device: &str, role: &str, presented: &str) -> Option<Principal> {
        let (holder, seal) = presented.strip_prefix("cdt.")?.rsplit_once('.')?;
        let seal = blake3::Hash::from_hex(seal).ok()?;
        let (principal, own) = tokens.seal(Seal::Device, holder, &format!("{device}|{role}"))?;
        // Hashes compare in constant time.
        (own == seal).then_some(principal)
    }
}

impl fmt::Display for DeviceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cdt.{}.{}", self.holder, self.seal.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_794_786_350_796;
    const NONCE: &str = "e026b424-c9d9-4de4-a6a9-499a0bf8dbd3";

    fn check(change: impl FnOnce(&mut Device), token: &str, now: u64, expected: Result<(), Wrong>) {
        let scopes = ["operator.admin", "operator.read", "operator.write", "operator.approvals"].map(str::to_owned);
        let mut device = Device {
            id: "fd273d788210e904b0f21c42ee84af0257a1d0493a7d95a2b5f8e0db00e15225".into(),
            public_key: "lKN6CvshHfkw_wph1km7ehH5H2LvV-XrkMIu86Oi1As".into(),
            signature: "NJmIeYz5CDSV6nV1KdrDtMgdCW7SG4ugVXmncI4iDXwgTT8YdmsspDbhR9g63umfosSFrNsjFSZ6lLJnuJNFCw".into(),
            signed_at: AT,
            nonce: NONCE.into(),
        };
        change(&mut device);
        let signed = Signed {
            client_id: "openclaw-tui",
            mode: "ui",
            role: "operator",
            scopes: &scopes,
            token,
            platform: "Linux",
            family: "linux",
        };
        assert_eq!(device.verify(&signed, NONCE, Timestamp(now)), expected);
    }

    #[test]
    fn a_signature_seen_on_the_wire_is_taken_and_any_other_is_not() {
        const TOKEN: &str = "tok-throwaway-0123456789abcdef";
        check(|_| (), TOKEN, AT, Ok(()));
        check(|_| (), TOKEN, AT + SKEW_MS, Ok(()));
        check(|_| (), TOKEN, AT + SKEW_MS + 1, Err(Wrong::Stale));
        check(|_| (), "another", AT, Err(Wrong::Signature));
        check(|device| device.signed_at += 1, TOKEN, AT, Err(Wrong::Signature));
        check(|device| device.nonce = "x".into(), TOKEN, AT, Err(Wrong::Nonce));
        check(|device| device.nonce = String::new(), TOKEN, AT, Err(Wrong::NonceMissing));
        check(|device| device.id.replace_range(0..1, "0"), TOKEN, AT, Err(Wrong::Id));
        check(|device| device.public_key = "!".into(), TOKEN, AT, Err(Wrong::PublicKey));
        check(|device| device.signature = "!".into(), TOKEN, AT, Err(Wrong::Signature));
    }
}
