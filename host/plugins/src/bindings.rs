//! The WIT packages as Rust. One world holds every interface that a component may export; each component has some of them.

wasmtime::component::bindgen!({
    inline: "
        package chela:host;
        world every {
            import chela:policy/log@0.1.0;
            export chela:policy/lifecycle@0.1.0;
            export chela:policy/classification@0.1.0;
            export chela:policy/tool-guard@0.1.0;
            export chela:policy/prompts@0.1.0;
            export chela:channel/adapter@0.1.0;
        }
    ",
    path: ["../../wit/policy", "../../wit/channel"],
    world: "chela:host/every",
    // What is asked is lent to the component, not copied for it first.
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(super) use chela::policy::{log, tasks, types};
pub(super) use exports::chela::channel::adapter;
pub(super) use exports::chela::policy::{classification, lifecycle, prompts, tool_guard};
