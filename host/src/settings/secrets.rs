//! Finds the secrets that a configuration names, and keeps them from being shown.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::{Auth, Problems, Secret};
use crate::layout::StateDir;
use crate::schema::Problem;
use crate::scope::Scope;

/// Who holds `gateway.auth.token`.
const OWNER: &str = "owner";
/// A shorter token could be guessed.
const TOKEN_CHARS_MIN: usize = 16;
const SECRET_BYTES_MAX: u64 = 4096;

/// Who a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// `owner`, or the token's name in the configuration.
    pub name: String,
    pub scope: Scope,
}

/// Every token that opens the gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    list: Vec<(Principal, String)>,
    fingerprints: Vec<blake3::Hash>,
}

impl Tokens {
    /// Finds every token that `auth` names; files are relative to `dir`.
    pub fn of(auth: &Auth, dir: &StateDir) -> Result<Self, Problems> {
        let mut tokens = Vec::new();
        let mut problems = Vec::new();
        let mut take = |path: String, name: &str, scope, secret: &Secret| match text_of(secret, dir)
            .and_then(|token| good_token(token, &tokens))
        {
            Ok(token) => tokens.push((Principal { name: name.to_owned(), scope }, token)),
            Err(message) => problems.push(Problem::new(path, message)),
        };
        take("gateway.auth.token".into(), OWNER, Scope::Admin, &auth.token);
        for (name, named) in &auth.tokens {
            take(format!("gateway.auth.tokens.{name}.token"), name, named.scope, &named.token);
        }
        if auth.tokens.contains_key(OWNER) {
            problems.push(Problem::new("gateway.auth.tokens.owner", "this name is taken by `gateway.auth.token`"));
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
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

fn good_token(token: String, before: &[(Principal, String)]) -> Result<String, String> {
    if token.len() < TOKEN_CHARS_MIN {
        return Err(format!(
            "a token has at least {TOKEN_CHARS_MIN} characters; `openssl rand -hex 32` makes a good one"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a token is printable ASCII without spaces, since it travels in a header".into());
    }
    match before.iter().find(|(_, other)| *other == token) {
        Some((principal, _)) => Err(format!("this is the token of `{}` too; each needs its own", principal.name)),
        None => Ok(token),
    }
}

fn text_of(secret: &Secret, dir: &StateDir) -> Result<String, String> {
    match secret {
        Secret::Text(text) => Ok(text.clone()),
        Secret::File(source) => read(&dir.path().join(&source.file)),
        Secret::Env(source) => std::env::var(&source.env)
            .map_err(|_| format!("the environment variable {} is not set for the gateway", source.env)),
        Secret::Credential(source) => {
            let home = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from).ok_or(
                "there are no systemd credentials here; run as a service with LoadCredential=, or use {file: …}",
            )?;
            if source.credential.contains('/') {
                return Err("a credential's name has no `/`".into());
            }
            read(&home.join(&source.credential))
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
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
            (Err(problems), Err(expected)) => {
                let said = problems.to_string();
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
    }
}
