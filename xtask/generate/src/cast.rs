//! The team whose days are told: who may appear as an agent.
//! Keeps true: ids are valid agent ids of a configuration, and the order never changes, since logs depend on it.

/// One member of the generated team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    pub id: &'static str,
    pub name: &'static str,
}

/// Work goes one to three and back, so a smaller team cannot show it.
pub const AGENTS_MIN: usize = 4;

const AGENTS: [Agent; 15] = [
    Agent { id: "eden", name: "이든" },
    Agent { id: "seum", name: "세움" },
    Agent { id: "ieum", name: "이음" },
    Agent { id: "nuri", name: "누리" },
    Agent { id: "dami", name: "다미" },
    Agent { id: "haneul", name: "하늘" },
    Agent { id: "garam", name: "가람" },
    Agent { id: "sora", name: "소라" },
    Agent { id: "maru", name: "마루" },
    Agent { id: "bitna", name: "빛나" },
    Agent { id: "yeoul", name: "여울" },
    Agent { id: "onyu", name: "온유" },
    Agent { id: "jinu", name: "지누" },
    Agent { id: "raon", name: "라온" },
    Agent { id: "tori", name: "토리" },
];

/// Everyone who may appear, for a configuration that names them.
pub fn agents() -> &'static [Agent] {
    &AGENTS
}
