//! The deployment's table of categories. Ten by default; a deployment may rename or replace them.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::schema::Problem;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Category {
    /// What events and answers carry.
    #[schemars(extend("pattern" = "^[a-z0-9_]{1,64}$", "x-advice" = "use a-z, 0-9 and `_`, at most 64"))]
    pub key: String,
    /// What people read, in Korean.
    pub ko: String,
    /// What people read, in English.
    pub en: String,
}

pub(super) fn default_table() -> Vec<Category> {
    let row = |(key, ko, en): (&str, &str, &str)| Category { key: key.into(), ko: ko.into(), en: en.into() };
    [
        ("engineering_build", "개발/구현", "Engineering"),
        ("infra_ops", "인프라/운영", "Infrastructure and operations"),
        ("qa_validation", "QA/검증", "Quality assurance"),
        ("planning_decision", "기획/의사결정", "Planning and decisions"),
        ("research_analysis", "조사/분석", "Research and analysis"),
        ("docs_knowledge", "문서/지식화", "Documentation and knowledge"),
        ("growth_marketing", "성장/마케팅", "Growth and marketing"),
        ("customer_community", "고객/커뮤니티", "Customers and community"),
        ("legal_compliance", "법무/컴플라이언스", "Legal and compliance"),
        ("biz_strategy", "비즈니스/전략", "Business and strategy"),
    ]
    .map(row)
    .into()
}

/// What the schema cannot say.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let twice = config.categories.iter().enumerate().filter(|(_, category)| !seen.insert(&category.key));
    twice.map(|(at, _)| Problem::new(format!("categories[{at}].key"), "a category before it has this key")).collect()
}
