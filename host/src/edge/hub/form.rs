//! Fields of a form, and of what stands behind `?`.

use axum::body::Body;
use axum::http::request::Parts;

use crate::edge::{Context, Refusal, body};

/// Fields that one form may have.
const FIELDS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn of_query(head: &Parts) -> Self {
        Self::of(head.uri.query().unwrap_or_default().as_bytes())
    }

    /// The body of a form that was sent.
    pub(super) async fn read(context: &Context, sent: Body) -> Result<Self, Refusal> {
        Ok(Self::of(&body::read(context, sent).await?))
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let fields = form_urlencoded::parse(bytes).take(FIELDS_MAX);
        Self(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// What a field says; none where it is missing or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether it was asked for at all, be it empty.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A text that somebody wrote, with the line ends of this system.
    pub(super) fn written(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().replace("\r\n", "\n")
    }
}
