//! The WIT package as Rust, one module an interface that a plugin can export; `base` holds what all of them share.
//! The metadata of those that a plugin exports are joined when it becomes a component.

pub mod base {
    wit_bindgen::generate!({
        inline: "
            package chela:sdk;
            world base {
                import chela:policy/log@0.1.0;
                import chela:policy/tasks@0.1.0;
                import chela:policy/types@0.1.0;
                export chela:policy/lifecycle@0.1.0;
            }
        ",
        path: "../../wit/policy",
        world: "chela:sdk/base",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_lifecycle",
        default_bindings_module: "chela_sdk::worlds::base",
    });
}

pub mod classification {
    wit_bindgen::generate!({
        inline: "package chela:sdk; world classification { export chela:policy/classification@0.1.0; }",
        path: "../../wit/policy",
        world: "chela:sdk/classification",
        with: { "chela:policy/types@0.1.0": crate::worlds::base::chela::policy::types },
        pub_export_macro: true,
        export_macro_name: "export_classification",
        default_bindings_module: "chela_sdk::worlds::classification",
    });
}

pub mod tool_guard {
    wit_bindgen::generate!({
        inline: "package chela:sdk; world tool-guard { export chela:policy/tool-guard@0.1.0; }",
        path: "../../wit/policy",
        world: "chela:sdk/tool-guard",
        with: {
            "chela:policy/tasks@0.1.0": crate::worlds::base::chela::policy::tasks,
            "chela:policy/types@0.1.0": crate::worlds::base::chela::policy::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_tool_guard",
        default_bindings_module: "chela_sdk::worlds::tool_guard",
    });
}

pub mod prompts {
    wit_bindgen::generate!({
        inline: "package chela:sdk; world prompts { export chela:policy/prompts@0.1.0; }",
        path: "../../wit/policy",
        world: "chela:sdk/prompts",
        with: {
            "chela:policy/tasks@0.1.0": crate::worlds::base::chela::policy::tasks,
            "chela:policy/types@0.1.0": crate::worlds::base::chela::policy::types,
        },
        pub_export_macro: true,
        export_macro_name: "export_prompts",
        default_bindings_module: "chela_sdk::worlds::prompts",
    });
}

#[cfg(feature = "channel")]
pub mod adapter {
    wit_bindgen::generate!({
        inline: "package chela:sdk; world adapter { export chela:channel/adapter@0.1.0; }",
        path: ["../../wit/policy", "../../wit/channel"],
        world: "chela:sdk/adapter",
        with: { "chela:policy/types@0.1.0": crate::worlds::base::chela::policy::types },
        pub_export_macro: true,
        export_macro_name: "export_adapter",
        default_bindings_module: "chela_sdk::worlds::adapter",
    });
}
