//! The category that a work session is shown with: a person's word over the log's over the classifier's.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fold::Manual;
use crate::clock::Timestamp;
use crate::policy::{Classification, Source};

/// What the classifier said of a session, and who it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Classified {
    pub(super) answer: Classification,
    /// Name and version; none when the gateway fell back on its own.
    pub(super) version: Option<String>,
    pub(super) at: Timestamp,
}

/// What an operator said of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    pub collab_category: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    pub updated_at: String,
}

pub(super) type Overrides = HashMap<String, Override>;

/// As the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collab_category: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) collab_secondary: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) collab_sub_tags: Vec<String>,
    pub(super) category_confidence: f64,
    pub(super) category_source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category_updated_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category_updated_at: Option<String>,
}

pub(super) const FALLBACK: &str = "fallback";

impl Shown {
    pub(super) fn of(by_hand: Option<&Override>, manual: Option<&Manual>, classified: Option<&Classified>) -> Self {
        let mut shown = classified.map_or_else(Self::uncategorised, Self::of_classifier);
        if let Some(manual) = manual {
            shown.collab_category = Some(manual.category.clone());
            shown.category_source = "manual".into();
            shown.category_confidence = 1.0;
            shown.category_reason = None;
            if !manual.sub_tags.is_empty() {
                shown.collab_sub_tags.clone_from(&manual.sub_tags);
            }
        }
        if let Some(by_hand) = by_hand {
            shown.collab_category = Some(by_hand.collab_category.clone());
            shown.category_source = "manual_override".into();
            shown.category_confidence = 1.0;
            shown.category_reason = None;
            shown.category_updated_by.clone_from(&by_hand.updated_by);
            shown.category_updated_at = Some(by_hand.updated_at.clone());
        }
        let primary = shown.collab_category.clone();
        shown.collab_secondary.retain(|other| Some(other) != primary.as_ref());
        shown
    }

    fn uncategorised() -> Self {
        Self { category_source: FALLBACK.into(), ..Self::default() }
    }

    fn of_classifier(classified: &Classified) -> Self {
        let answer = &classified.answer;
        let source = match answer.source {
            Source::Rule => "rule",
            Source::Heuristic => "heuristic",
            Source::Fallback => FALLBACK,
        };
        Self {
            collab_category: answer.primary.clone(),
            collab_secondary: answer.secondary.clone(),
            collab_sub_tags: answer.sub_tags.clone(),
            category_confidence: answer.confidence,
            category_source: source.into(),
            category_version: classified.version.clone(),
            category_reason: Some(answer.reason.clone()).filter(|reason| !reason.is_empty()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_s_word_stands_over_the_log_s_and_that_over_the_classifier_s() {
        let classified = Classified {
            answer: Classification {
                primary: Some("infra_ops".into()),
                secondary: vec!["qa_validation".into(), "biz_strategy".into()],
                sub_tags: vec!["배포".into()],
                confidence: 0.8,
                source: Source::Rule,
                reason: "keyword".into(),
            },
            version: Some("rules 0.1.0".into()),
            at: Timestamp(1),
        };
        let manual = Manual { category: "qa_validation".into(), sub_tags: Vec::new() };
        let by_hand = Override {
            collab_category: "biz_strategy".into(),
            updated_by: Some("mina".into()),
            updated_at: "t".into(),
        };
        let check = |shown: &Shown, category: Option<&str>, source: &str, secondary: &[&str]| {
            assert_eq!((shown.collab_category.as_deref(), shown.category_source.as_str()), (category, source));
            assert_eq!(shown.collab_secondary, secondary);
        };
        check(&Shown::of(None, None, None), None, "fallback", &[]);
        let both = ["qa_validation", "biz_strategy"];
        check(&Shown::of(None, None, Some(&classified)), Some("infra_ops"), "rule", &both);
        check(&Shown::of(None, Some(&manual), Some(&classified)), Some("qa_validation"), "manual", &["biz_strategy"]);
        let shown = Shown::of(Some(&by_hand), Some(&manual), Some(&classified));
        check(&shown, Some("biz_strategy"), "manual_override", &["qa_validation"]);
        assert_eq!(shown.collab_sub_tags, ["배포"], "what is not overridden stays");
    }
}
