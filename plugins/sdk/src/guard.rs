//! The world `guard`: whether a tool call may run.

use crate::{Failure, Plugin};

pub use crate::worlds::tool_guard::exports::chela::policy::tool_guard::{Refusal, Request, Verdict};

pub trait Guard: Plugin {
    /// Decides about one tool call. Every tool call of every agent comes here.
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure>;
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
