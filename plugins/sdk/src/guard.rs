//! The world `guard`: whether a tool call may run.

use crate::{Failure, Plugin};

pub use crate::worlds::tool_guard::exports::chela::policy::tool_guard::{Refusal, Request, Verdict};

pub trait Guard: Plugin {
    /// Decides about one tool call. Every tool call of every agent comes here.
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure>;
}

impl Refusal {
    /// A refusal with its reason, and what the agent should do instead.
    pub fn because(reason: impl Into<String>, instruction: impl Into<String>) -> Self {
        Self { reason: reason.into(), remaining: Vec::new(), instructions: vec![instruction.into()] }
    }
}

/// Exports a function from [`Request`] to [`Verdict`] as a guard that has nothing to configure and never fails.
#[macro_export]
macro_rules! guard_fn {
    ($decide:path) => {
        struct Decided;

        impl $crate::Plugin for Decided {
            fn configure(json: &str) -> ::std::result::Result<Self, $crate::ConfigError> {
                $crate::no_config(json).map(|()| Self)
            }
        }

        impl $crate::guard::Guard for Decided {
            fn before_tool_call(
                &self,
                request: $crate::guard::Request,
            ) -> ::std::result::Result<$crate::guard::Verdict, $crate::Failure> {
                ::std::result::Result::Ok($decide(request))
            }
        }

        $crate::guard!(Decided);
    };
}

/// Exports a type that implements [`Guard`] as a component of the world `guard`.
#[macro_export]
macro_rules! guard {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::lifecycle!($plugin);
            $crate::export_guard!();
        };
    };
}

/// The exports of this world, beside a lifecycle.
#[doc(hidden)]
#[macro_export]
macro_rules! export_guard {
    () => {
        const _: () = {
            use $crate::worlds::tool_guard::exports::chela::policy::tool_guard as wit;

            impl wit::Guest for Exported {
                fn before_tool_call(request: wit::Request) -> ::std::result::Result<wit::Answer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let verdict = $crate::guard::Guard::before_tool_call(&*plugin, request)?;
                    Ok(wit::Answer { verdict, attrs: ::std::vec::Vec::new() })
                }
            }

            $crate::worlds::tool_guard::export_tool_guard!(Exported);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(request: Request) -> Verdict {
        match request.tool.as_str() {
            "files_delete" => Verdict::Block(Refusal::because("Files stay", "Ask a person")),
            _ => Verdict::Allow,
        }
    }

    crate::guard_fn!(decide);

    #[test]
    fn a_function_is_a_guard_without_a_configuration() {
        assert!(Decided::configure(r#"{"a": 1}"#).is_err());
        assert!(Decided::configure("{}").is_ok());
    }
}
