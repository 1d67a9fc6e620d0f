//! Finds the secrets that a configuration names, and keeps them from being shown.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::file::open_regular;
use crate::config::{Auth, Problems, Secret};
use crate::layout::StateDir;
use crate::schema::Problem;
use crate::scope::Scope;

/// Who holds `gateway.auth.token`.
const OWNER: &str = "owner";
/// A shorter token could be guessed.
const TOKEN_CHARS_MIN: usize = 16;
const SECRET_BYTES_MAX: u64 = 4096;
/// What systemd hands over is for the service, and for root where it lies.
pub(super) const NO_CREDENTIALS: &str = "this process has no systemd credentials; run as a service with LoadCredential=, \
     or as root with CREDENTIALS_DIRECTORY=/run/credentials/chela.service (of the service that has them)";

/// Who a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// `owner`, or the token's name in the configuration.
    pub name: String,
    pub scope: Scope,
}

/// What a seal is for: one of one kind is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// A browser that has signed in.
    Browser,
    /// A device that comes back.
    Device,
}

impl Seal {
    fn context(self) -> &'static str {
        match self {
            Self::Browser => "chela 2026 sign-in of a browser",
            Self::Device => "chela 2026-11 device tokens",
        }
    }
}

/// Every token that opens the gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    list: Vec<(Principal, String)>,
    fingerprints: Vec<blake3::Hash>,
}

impl Tokens {
    /// Finds every token that `auth` names; files are relative to `dir`.
    pub fn of(auth: &Auth, dir: &StateDir) -> Result<Self, NoTokens> {
        let named = auth.tokens.iter().map(|(name, named)| {
            (format!("gateway.auth.tokens.{name}.token"), name.as_str(), named.scope, &named.token)
        });
        let owner = ("gateway.auth.token".to_owned(), OWNER, Scope::Admin, &auth.token);
        let (mut tokens, mut problems, mut all_elsewhere) = (Vec::new(), Vec::new(), true);
        for (path, name, scope, secret) in std::iter::once(owner).chain(named) {
            match text_of(secret, dir).and_then(|token| good_token(name, token, &tokens)) {
                Ok(token) => tokens.push((Principal { name: name.to_owned(), scope }, token)),
                Err(missing) => {
                    all_elsewhere &= missing.elsewhere;
                    problems.push(Problem::new(path, missing.message));
                }
            }
        }
        if !problems.is_empty() {
            return Err(NoTokens { problems: Problems(problems), all_elsewhere });
        }
        let fingerprints = tokens.iter().map(|(_, token)| blake3::hash(token.as_bytes())).collect();
        Ok(Self { list: tokens, fingerprints })
    }

    /// Whose token this is. The time it takes tells nothing of any token: fingerprints are compared, all of them, in constant time.
    pub fn find(&self, presented: &[u8]) -> Option<Principal> {
        let presented = blake3::hash(presented);
        let mut found = None;
        for (known, (principal, _)) in self.fingerprints.iter().zip(&self.list) {
            if *known == presented {
                found = Some(principal);
            }
        }
        found.cloned()
    }

    /// What only we, and whoever holds the token of `name`, can make of a text for this use; and whose that is.
    pub fn seal(&self, seal: Seal, name: &str, text: &str) -> Option<(Principal, blake3::Hash)> {
        let (principal, token) = self.list.iter().find(|(principal, _)| principal.name == name)?;
        let key = blake3::derive_key(seal.context(), token.as_bytes());
        Some((principal.clone(), blake3::keyed_hash(&key, text.as_bytes())))
    }

    /// Everybody who may come in, the owner first.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.list.iter().map(|(principal, _)| principal)
    }

    /// Whether `name` still has the token and the scope that it had in `before`.
    pub fn keeps(&self, before: &Self, name: &str) -> bool {
        let of = |tokens: &Self| tokens.list.iter().position(|(principal, _)| principal.name == name);
        match (of(self), of(before)) {
            // Fingerprints compare in constant time.
            (Some(now), Some(then)) => {
                self.fingerprints[now] == before.fingerprints[then] && self.list[now].0 == before.list[then].0
            }
            _ => false,
        }
    }

    /// The name of who holds the owner's token.
    pub fn owner_name(&self) -> &'static str {
        OWNER
    }

    /// The owner's token, for `chela token`.
    pub fn owner(&self) -> &str {
        self.list.first().map_or("", |(_, token)| token)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|(principal, _)| &principal.name)).finish()
    }
}

/// Why there are no tokens.
#[derive(Debug)]
pub struct NoTokens {
    pub problems: Problems,
    /// Nothing is wrong with the configuration: the secrets are there for the gateway, and not for this process.
    pub all_elsewhere: bool,
}

/// The text of a secret, or what to change so that it is there.
pub fn secret_text(secret: &Secret, dir: &StateDir) -> Result<String, String> {
    text_of(secret, dir).map_err(|missing| missing.message)
}

/// Why there is no secret.
struct Missing {
    message: String,
    /// It lives in an environment that this process does not share.
    elsewhere: bool,
}

impl From<String> for Missing {
    fn from(message: String) -> Self {
        Self { message, elsewhere: false }
    }
}

fn elsewhere(message: String) -> Missing {
    Missing { message, elsewhere: true }
}

fn good_token(name: &str, token: String, before: &[(Principal, String)]) -> Result<String, Missing> {
    if before.iter().any(|(principal, _)| principal.name == name) {
        return Err(format!("the name `{name}` is taken by `gateway.auth.token`").into());
    }
    if let Some(fault) = fault(&token) {
        return Err(fault.into());
    }
    match before.iter().find(|(_, other)| *other == token) {
        Some((principal, _)) => {
            Err(format!("this is the token of `{}` too; each needs its own", principal.name).into())
        }
        None => Ok(token),
    }
}

/// Why a text is no token.
pub fn fault(token: &str) -> Option<String> {
    if token.len() < TOKEN_CHARS_MIN {
        return Some(format!(
            "a token has at least {TOKEN_CHARS_MIN} characters; `openssl rand -hex 32` makes a good one"
        ));
    }
    let good = token.bytes().all(|byte| byte.is_ascii_graphic());
    (!good).then(|| "a token is printable ASCII without spaces, since it travels in a header".to_owned())
}

fn text_of(secret: &Secret, dir: &StateDir) -> Result<String, Missing> {
    match secret {
        Secret::Text(text) => Ok(text.clone()),
        Secret::File(source) => Ok(read(&dir.path().join(&source.file))?),
        Secret::Env(source) => std::env::var(&source.env)
            .map_err(|_| elsewhere(format!("the environment variable {} is not set for this process", source.env))),
        Secret::Credential(source) if source.credential.contains('/') => {
            Err("a credential's name has no `/`".to_owned().into())
        }
        Secret::Credential(source) => match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(home) => Ok(read(&PathBuf::from(home).join(&source.credential))?),
            None => Err(elsewhere(format!("{NO_CREDENTIALS}, or use {{file: …}}"))),
        },
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = open_regular(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(format!("everyone can read {}; run `chmod 600 {}`", path.display(), path.display()));
    }
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn check(config: &str, expected: Result<&[(&str, Scope)], &str>) {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = StateDir::new(temp.path());
        for (name, mode) in [("good", 0o600), ("open", 0o644)] {
            let path = temp.path().join(name);
            std::fs::write(&path, "from-a-file-0123456789\nsecond line").expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its owner's");
        }
        let auth = parse(config).expect("a valid configuration").gateway.auth;
        match (Tokens::of(&auth, &dir), expected) {
            (Ok(tokens), Ok(expected)) => {
                for (token, scope) in expected {
                    assert_eq!(tokens.find(token.as_bytes()).map(|p| p.scope), Some(*scope), "{config}");
                }
                assert_eq!(tokens.find(b""), None);
                assert_eq!(tokens.find(b"0123456789abcdeX"), None);
                assert!(!format!("{tokens:?}").contains("0123456789"));
            }
            (Err(missing), Err(expected)) => {
                let said = missing.problems.to_string();
                assert!(said.contains(expected), "{said}");
            }
            (found, expected) => panic!("{found:?} instead of {expected:?} for {config}"),
        }
    }

    #[test]
    fn tokens_come_from_text_files_and_names() {
        check("{gateway:{auth:{token:'0123456789abcdef'}}}", Ok(&[("0123456789abcdef", Scope::Admin)]));
        check("{gateway:{auth:{token:{file:'good'}}}}", Ok(&[("from-a-file-0123456789", Scope::Admin)]));
        check(
            "{gateway:{auth:{token:'0123456789abcdef',tokens:{grafana:{token:'fedcba9876543210',scope:'operator.read'}}}}}",
            Ok(&[("0123456789abcdef", Scope::Admin), ("fedcba9876543210", Scope::Read)]),
        );
    }

    #[test]
    fn a_secret_that_cannot_be_had_is_refused_by_name() {
        check("{}", Err("gateway.auth.token: a token has at least 16 characters"));
        check("{gateway:{auth:{token:'0123456789 abcdef'}}}", Err("printable ASCII without spaces"));
        check(
            "{gateway:{auth:{token:'0123456789abcdef',tokens:{twin:{token:'0123456789abcdef',scope:'operator.read'}}}}}",
            Err("gateway.auth.tokens.twin.token: this is the token of `owner` too"),
        );
        check("{gateway:{auth:{token:{file:'open'}}}}", Err("chmod 600"));
        check("{gateway:{auth:{token:{file:'none'}}}}", Err("cannot read"));
        check("{gateway:{auth:{token:{env:'CHELA_NO_SUCH_VARIABLE'}}}}", Err("CHELA_NO_SUCH_VARIABLE is not set"));
        check("{gateway:{auth:{token:{credential:'token'}}}}", Err("LoadCredential="));
        check(
            "{gateway:{auth:{token:{credential:'token'}}}}",
            Err("as root with CREDENTIALS_DIRECTORY=/run/credentials/"),
        );
    }
}
