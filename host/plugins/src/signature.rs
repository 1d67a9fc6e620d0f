//! Signatures of components: who vouches for these very bytes, under which name, and whether this deployment takes that word.
//! A signature lies beside the file, `NAME.wasm.sig`. It is over a manifest that names the content by its SHA-256.
//! Keeps true: what is required is checked before anything looks into the component. Never: keeps a private key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::inspect::Inspection;
use crate::config::Signatures;
use crate::policy::World;

/// What is signed begins with this, so that no signature of ours can be taken for one of something else.
const PURPOSE: &[u8] = b"chela plugin signature 1\n";
pub(super) const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What somebody vouches for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub worlds: Vec<World>,
    pub interface_version: String,
    /// What it imports beyond the log.
    pub grants: Vec<String>,
    pub bytes: usize,
    pub sha256: String,
}

/// `NAME.wasm.sig`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Signature {
    pub algorithm: Algorithm,
    /// The public key of who signed, as 44 characters of base64.
    pub key: String,
    pub manifest: Manifest,
    pub signature: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    Ed25519,
}

/// A key that signs. Its file is for its owner alone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SigningKey {
    pub algorithm: Algorithm,
    pub public: String,
    /// PKCS #8, as base64.
    private: String,
}

/// Why a component's signature does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "it has no signature, and this deployment takes signed plugins only; put NAME.wasm.sig beside it, as `chela plugin sign` makes it"
    )]
    Unsigned,
    #[error("its signature cannot be read: {said}; sign it again")]
    Unreadable { said: String },
    #[error("its signature is of another file (SHA-256 {signed}, this is {found}); sign this one, or copy both again")]
    Other { signed: String, found: String },
    #[error("its signature is wrong: it was not made with the key {key}; sign it again")]
    Wrong { key: String },
    #[error("it is signed with the key {key}, which `plugins.signatures.keys` does not name")]
    UnknownKey { key: String },
    #[error("it is signed with the key {key}, which `plugins.signatures.revoked` names")]
    RevokedKey { key: String },
    #[error("its SHA-256 {sha256} is in `plugins.signatures.revoked`; install a version that is not")]
    RevokedHash { sha256: String },
    #[error("the key cannot be used: {said}")]
    Key { said: String },
}

impl Manifest {
    pub fn new(name: &str, version: &str, inspection: &Inspection) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            worlds: inspection.worlds.clone(),
            interface_version: inspection.interface_version.clone(),
            grants: inspection.grants.clone(),
            bytes: inspection.bytes,
            sha256: inspection.sha256.clone(),
        }
    }

    /// The bytes that are signed: fields have one order, so there is one text for a manifest.
    fn signed(&self) -> Vec<u8> {
        [PURPOSE, &serde_json::to_vec(self).expect("a manifest is plain JSON")].concat()
    }
}

impl SigningKey {
    pub fn generate() -> Result<Self, Refused> {
        let refused = |_| Refused::Key { said: "this machine gives no randomness".into() };
        let private = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(refused)?;
        let private = BASE64.encode(private.as_ref());
        let pair = pair(&private)?;
        let public = BASE64.encode(pair.public_key().as_ref());
        Ok(Self { algorithm: Algorithm::Ed25519, public, private })
    }

    pub fn read(text: &str) -> Result<Self, Refused> {
        let key: Self = serde_json::from_str(text).map_err(|error| Refused::Key { said: error.to_string() })?;
        match BASE64.encode(pair(&key.private)?.public_key().as_ref()) == key.public {
            true => Ok(key),
            false => Err(Refused::Key { said: "its two halves do not belong together".into() }),
        }
    }

    pub fn sign(&self, manifest: Manifest) -> Result<Signature, Refused> {
        let signature = BASE64.encode(pair(&self.private)?.sign(&manifest.signed()).as_ref());
        Ok(Signature { algorithm: Algorithm::Ed25519, key: self.public.clone(), manifest, signature })
    }
}

fn pair(private: &str) -> Result<Ed25519KeyPair, Refused> {
    let bytes = BASE64.decode(private).map_err(|error| Refused::Key { said: error.to_string() })?;
    Ed25519KeyPair::from_pkcs8(&bytes).map_err(|error| Refused::Key { said: error.to_string() })
}

/// Whether a component may be looked at, by its bytes and what lies beside it; gives the signature if there is one.
pub fn verify(bytes: &[u8], beside: Option<&[u8]>, rules: &Signatures) -> Result<Option<Signature>, Refused> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if rules.revoked.contains(&found) {
        return Err(Refused::RevokedHash { sha256: found });
    }
    let Some(beside) = beside else {
        return if rules.require { Err(Refused::Unsigned) } else { Ok(None) };
    };
    let unreadable = |said: String| Refused::Unreadable { said };
    let read: Signature = serde_json::from_slice(beside).map_err(|error| unreadable(error.to_string()))?;
    if read.manifest.sha256 != found {
        let signed = read.manifest.sha256.chars().take(64).collect();
        return Err(Refused::Other { signed, found });
    }
    let key = BASE64.decode(&read.key).map_err(|error| unreadable(format!("key: {error}")))?;
    let signature = BASE64.decode(&read.signature).map_err(|error| unreadable(format!("signature: {error}")))?;
    let shown = || BASE64.encode(&key);
    UnparsedPublicKey::new(&ED25519, &key)
        .verify(&read.manifest.signed(), &signature)
        .map_err(|_| Refused::Wrong { key: shown() })?;
    let is_known = |known: &String| BASE64.decode(known).is_ok_and(|known| known == key);
    if rules.revoked.iter().any(is_known) {
        return Err(Refused::RevokedKey { key: shown() });
    }
    if rules.require && !rules.keys.values().any(is_known) {
        return Err(Refused::UnknownKey { key: shown() });
    }
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = b"a component";

    fn manifest() -> Manifest {
        let sha256 = Sha256::digest(BYTES).iter().map(|byte| format!("{byte:02x}")).collect();
        Manifest {
            name: "mine".into(),
            version: "1.0.0".into(),
            worlds: vec![World::Guard],
            interface_version: "0.1.0".into(),
            grants: Vec::new(),
            bytes: BYTES.len(),
            sha256,
        }
    }

    fn rules(require: bool, keys: &[&str], revoked: &[&str]) -> Signatures {
        let keys = keys.iter().enumerate().map(|(n, key)| (format!("key{n}"), (*key).to_owned())).collect();
        Signatures { require, keys, revoked: revoked.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn what_a_known_key_has_signed_is_taken_and_nothing_else_is() {
        let (key, other) = (SigningKey::generate().expect("made"), SigningKey::generate().expect("made"));
        let signed = serde_json::to_vec(&key.sign(manifest()).expect("signed")).expect("JSON");
        let all = rules(true, &[&key.public], &[]);
        assert_eq!(verify(BYTES, Some(&signed), &all).map(|found| found.is_some()), Ok(true));
        assert_eq!(verify(BYTES, None, &all), Err(Refused::Unsigned));
        assert_eq!(verify(BYTES, None, &Signatures::default()), Ok(None));
        let unknown = verify(BYTES, Some(&signed), &rules(true, &[&other.public], &[]));
        assert_eq!(unknown, Err(Refused::UnknownKey { key: key.public.clone() }));
        let revoked = verify(BYTES, Some(&signed), &rules(true, &[&key.public], &[&key.public]));
        assert_eq!(revoked, Err(Refused::RevokedKey { key: key.public.clone() }));
        let sha256 = manifest().sha256;
        let revoked = verify(BYTES, Some(&signed), &rules(false, &[], &[&sha256]));
        assert_eq!(revoked, Err(Refused::RevokedHash { sha256 }));
        assert!(matches!(verify(b"other bytes", Some(&signed), &all), Err(Refused::Other { .. })));
        assert!(matches!(verify(BYTES, Some(b"{"), &all), Err(Refused::Unreadable { .. })));
    }

    #[test]
    fn a_changed_manifest_is_not_what_was_signed() {
        let key = SigningKey::generate().expect("made");
        let mut signed = key.sign(manifest()).expect("signed");
        signed.manifest.version = "2.0.0".into();
        let bytes = serde_json::to_vec(&signed).expect("JSON");
        let said = verify(BYTES, Some(&bytes), &Signatures::default());
        assert_eq!(said, Err(Refused::Wrong { key: key.public.clone() }), "also where nothing is required");
        let text = serde_json::to_string(&key).expect("JSON");
        assert!(SigningKey::read(&text).is_ok());
        let other = SigningKey::generate().expect("made");
        assert!(SigningKey::read(&text.replace(&key.public, &other.public)).is_err());
    }
}
