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
    mod plugins_http;
    mod scripts;
    mod start;
    mod websocket;
}
