//! Every whole-host test, one binary, one line a room.

mod tidy;

mod cases {
    mod browser;
    mod cli;
    mod config;
    mod docs;
    mod edge;
    mod health;
    mod kill;
    mod plugins_guards;
    mod plugins_limits;
    mod plugins_refusals;
    mod scripts;
    mod start;
    mod websocket;
}
