//! The world `continuation`: what agents are told at the start of a run, and when they stop with work left.

use crate::{Failure, Plugin};

pub use crate::worlds::prompts::exports::chela::policy::prompts::{
    Action, Blocker, Counters, InstructionsRequest, Layer, NextRequest,
};

pub trait Continuation: Plugin {
    /// Markdown for the agent's instructions; empty for none.
    fn instructions(&self, request: InstructionsRequest) -> Result<String, Failure>;

    /// What to do about an agent that stopped.
    fn next(&self, request: NextRequest) -> Result<Action, Failure>;
}

/// Exports a type that implements [`Continuation`] as a component of the world `continuation`.
#[macro_export]
macro_rules! continuation {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::lifecycle!($plugin);
            $crate::export_continuation!();
        };
    };
}

/// The exports of this world, beside a lifecycle.
#[doc(hidden)]
#[macro_export]
macro_rules! export_continuation {
    () => {
        const _: () = {
            use $crate::worlds::prompts::exports::chela::policy::prompts as wit;

            impl wit::Guest for Exported {
                fn instructions(
                    request: wit::InstructionsRequest,
                ) -> ::std::result::Result<wit::InstructionsAnswer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let text = $crate::continuation::Continuation::instructions(&*plugin, request)?;
                    Ok(wit::InstructionsAnswer { text, attrs: ::std::vec::Vec::new() })
                }

                fn next(request: wit::NextRequest) -> ::std::result::Result<wit::NextAnswer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let action = $crate::continuation::Continuation::next(&*plugin, request)?;
                    Ok(wit::NextAnswer { action, attrs: ::std::vec::Vec::new() })
                }
            }

            $crate::worlds::prompts::export_prompts!(Exported);
        };
    };
}
