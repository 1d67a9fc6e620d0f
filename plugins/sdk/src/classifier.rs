//! The world `classifier`: roles of events, categories of conversations.

use crate::{Failure, Plugin};

pub use crate::worlds::classification::exports::chela::policy::classification::{
    CategoriesRequest, Classification, Conversation, EventFacts, Role, RolesRequest, Source,
};

pub trait Classifier: Plugin {
    /// One role for each event of the request, in their order.
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure>;

    /// One classification for each conversation of the request, in their order.
    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure>;
}

/// Exports a type that implements [`Classifier`] as a component of the world `classifier`.
#[macro_export]
macro_rules! classifier {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::lifecycle!($plugin);
            $crate::export_classifier!();
        };
    };
}

/// The exports of this world, beside a lifecycle.
#[doc(hidden)]
#[macro_export]
macro_rules! export_classifier {
    () => {
        const _: () = {
            use $crate::worlds::classification::exports::chela::policy::classification as wit;

            impl wit::Guest for Exported {
                fn roles(request: wit::RolesRequest) -> ::std::result::Result<wit::RolesAnswer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let roles = $crate::classifier::Classifier::roles(&*plugin, request)?;
                    Ok(wit::RolesAnswer { roles, attrs: ::std::vec::Vec::new() })
                }

                fn categories(
                    request: wit::CategoriesRequest,
                ) -> ::std::result::Result<wit::CategoriesAnswer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let classifications = $crate::classifier::Classifier::categories(&*plugin, request)?;
                    Ok(wit::CategoriesAnswer { classifications, attrs: ::std::vec::Vec::new() })
                }
            }

            $crate::worlds::classification::export_classification!(Exported);
        };
    };
}
