//! Finds the secrets that a configuration names, and keeps them from being shown.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

use crate::config::{Auth, Problems, Secret};
use crate::layout::StateDir;
use crate::schema::Problem;
use crate::scope::Scope;

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
pub struct Tokens(Vec<(Principal, String)>);

impl Tokens {
    /// Whose token this is. Takes the same time whichever token it is, or none.
    pub fn find(&self, presented: &[u8]) -> Option<Principal> {
        let mut found = None;
        for (principal, token) in &self.0 {
            if bool::from(token.as_bytes().ct_eq(presented)) {
                found = Some(principal);
            }
        }
        found.cloned()
    }

    /// The owner's token, for `chela token`.
    pub fn owner(&self) -> &str {
        self.0.first().map_or("", |(_, token)| token)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(principal, _)| &principal.name)).finish()
    }
}

pub(super) fn find(auth: &Auth, dir: &StateDir) -> Result<Tokens, Problems> {
    let mut tokens = Vec::new();
    let mut problems = Vec::new();
    let mut take = |path: String, name: &str, scope, secret: &Secret| match text_of(secret, dir) {
        Ok(token) if token.chars().count() < TOKEN_CHARS_MIN => problems.push(Problem::new(
            path,
            format!("a token has at least {TOKEN_CHARS_MIN} characters; `openssl rand -hex 32` makes a good one"),
        )),
        Ok(token) => tokens.push((Principal { name: name.to_owned(), scope }, token)),
        Err(message) => problems.push(Problem::new(path, message)),
    };
    take("gateway.auth.token".into(), "owner", Scope::Admin, &auth.token);
    for (name, named) in &auth.tokens {
        take(format!("gateway.auth.tokens.{name}.token"), name, named.scope, &named.token);
    }
    if problems.is_empty() { Ok(Tokens(tokens)) } else { Err(Problems(problems)) }
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
        match (find(&auth, &dir), expected) {
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
        check("{gateway:{auth:{token:{file:'open'}}}}", Err("chmod 600"));
        check("{gateway:{auth:{token:{file:'none'}}}}", Err("cannot read"));
        check("{gateway:{auth:{token:{env:'CHELA_NO_SUCH_VARIABLE'}}}}", Err("CHELA_NO_SUCH_VARIABLE is not set"));
        check("{gateway:{auth:{token:{credential:'token'}}}}", Err("LoadCredential="));
    }
}
