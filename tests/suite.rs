//! Every whole-host test, one binary, one line a room.

mod tidy;

mod cases {
    mod adopt;
    mod browser;
    mod cli;
    mod config;
    mod crash_events;
    mod crash_jobs;
    mod docs;
    mod edge;
    mod frozen;
    mod gateway_crash;
    mod gateway_frames;
    mod gateway_protocol;
    mod gateway_runs;
    mod guide;
    mod health;
    mod init;
    mod jobs_flows;
    mod jobs_lives;
    mod kill;
    mod models;
    mod monitor_api;
    mod monitor_bad_input;
    mod monitor_cli;
    mod monitor_follow;
    mod monitor_foreign;
    mod monitor_index;
    mod monitor_old_system;
    mod monitor_teamwork;
    mod plugins_bindings;
    mod plugins_cache;
    mod plugins_cli;
    mod plugins_files;
    mod plugins_guards;
    mod plugins_health;
    mod plugins_http;
    mod plugins_limits;
    mod plugins_refusals;
    mod plugins_shadow;
    mod plugins_swapping;
    mod plugins_wasi;
    mod scripts;
    mod sessions_cli;
    mod start;
    mod tasks_bad_input;
    mod tasks_durable;
    mod tasks_editing;
    mod tasks_files;
    mod tasks_tools;
    mod tools_fetch;
    mod tools_keys;
    mod websocket;
}
