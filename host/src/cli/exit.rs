//! Exit codes, by what the caller can do about them. The numbers are those of `sysexits.h` where it has one.

use std::io::ErrorKind;

use crate::{app, client, edge, journal, plugins, settings};

pub(super) const HELP: &str = "\
Exit codes:
   0  done
   1  failed for another reason, or `doctor` found something wrong
   2  wrong arguments
  69  no gateway serves the state directory, or it does not answer
  73  the state directory or a file in it cannot be written
  75  busy: another gateway serves the directory, or an address is taken or not there yet
  77  the gateway refused the token
  78  the configuration or a damaged file must be mended; a restart alone does not help

Start with `chela serve`: it writes a configuration with a demo team if there is none.";

pub(super) const FAILED: u8 = 1;
const ARGUMENTS: u8 = 2;
pub(super) const UNAVAILABLE: u8 = 69;
const CANNOT_WRITE: u8 = 73;
const BUSY: u8 = 75;
const REFUSED: u8 = 77;
const CONFIG: u8 = 78;

/// A command needs a gateway and there is none.
#[derive(Debug, thiserror::Error)]
#[error("no gateway serves {}; start one with `chela serve`", dir.display())]
pub(super) struct NoGateway {
    pub(super) dir: std::path::PathBuf,
}

/// A gateway serves, and does not listen where this is asked.
#[derive(Debug, thiserror::Error)]
#[error("the gateway of {} has the listener off that this asks; start it with `chela serve --gateway ADDR`", dir.display())]
pub(super) struct ListenerOff {
    pub(super) dir: std::path::PathBuf,
}

/// What an argument says is not what it may say, as only the gateway can tell.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: {said}")]
pub(super) struct WrongArgument {
    pub(super) flag: &'static str,
    pub(super) said: String,
}

pub(super) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<app::Error>() {
        return of_app(error);
    }
    if let Some(error) = error.downcast_ref::<settings::Error>() {
        return of_settings(error);
    }
    if error.is::<NoGateway>() || error.is::<ListenerOff>() {
        return UNAVAILABLE;
    }
    if error.is::<WrongArgument>() {
        return ARGUMENTS;
    }
    match error.downcast_ref::<client::Error>() {
        Some(client::Error::Unauthorised) => REFUSED,
        Some(client::Error::Declined { status, .. }) if *status >= 500 => UNAVAILABLE,
        // It answers, and says what is wrong with what was sent.
        Some(client::Error::TurnedAway { code, .. }) if code == "body_too_large" => FAILED,
        Some(client::Error::Refused(_) | client::Error::Declined { .. }) | None => FAILED,
        Some(_) => UNAVAILABLE,
    }
}

fn of_app(error: &app::Error) -> u8 {
    match error {
        app::Error::Directory { .. } | app::Error::Bus(_) | app::Error::Edge(edge::Error::Audit { .. }) => CANNOT_WRITE,
        app::Error::Served { .. } | app::Error::OldServes { .. } | app::Error::Edge(edge::Error::PortInUse { .. }) => {
            BUSY
        }
        // Rights and an address that is none stay as they are. A network that is late, or a lack of handles, passes.
        app::Error::Edge(edge::Error::Bind { cause, .. }) => match cause.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => CONFIG,
            _ => BUSY,
        },
        app::Error::Foreign { .. }
        | app::Error::OfAnother { .. }
        | app::Error::Newer { .. }
        | app::Error::Stamp { .. } => CONFIG,
        app::Error::Plugins(error) if matches!(**error, plugins::Error::Directory { .. }) => CANNOT_WRITE,
        app::Error::Journal(journal::Error::Damaged { .. } | journal::Error::Foreign { .. }) => CONFIG,
        app::Error::Journal(_) | app::Error::Tasks(_) | app::Error::Sessions(_) => CANNOT_WRITE,
        app::Error::Died { .. } | app::Error::Plugins(_) => FAILED,
        app::Error::Settings(error) => of_settings(error),
    }
}

fn of_settings(error: &settings::Error) -> u8 {
    match error {
        settings::Error::Exists { .. } | settings::Error::Write { .. } => CANNOT_WRITE,
        settings::Error::Missing { .. }
        | settings::Error::Read { .. }
        | settings::Error::Rights { .. }
        | settings::Error::TooLarge { .. }
        | settings::Error::NothingToAdopt { .. }
        | settings::Error::NotUtf8 { .. }
        | settings::Error::Invalid { .. }
        | settings::Error::SecretsElsewhere { .. }
        | settings::Error::Edit(_) => CONFIG,
        settings::Error::Changed { .. } => FAILED,
        settings::Error::Stopping => UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::port::Port;

    #[test]
    fn an_address_that_may_be_there_later_is_worth_another_start_and_one_that_may_not_be_had_is_not() {
        let check = |errno: Errno, expected: u8| {
            let address = "192.0.2.1:1".parse().expect("an address");
            let error = edge::Error::Bind { port: Port::Gateway, address, cause: errno.into() };
            assert_eq!(code_of(&anyhow::Error::from(app::Error::from(error))), expected, "{errno:?}");
        };
        for passes in [Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NFILE, Errno::NOBUFS] {
            check(passes, BUSY);
        }
        for stays in [Errno::ACCESS, Errno::PERM, Errno::INVAL] {
            check(stays, CONFIG);
        }
    }
}
