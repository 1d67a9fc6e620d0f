//! The machinery below the flows: what is counted, told, kept, watched, asked of models and reached over the network. Knows no policy and no agent.
//! In reading order: each uses only those before it.

pub mod memory;
pub mod metrics;
pub mod bus;
pub mod journal;
pub mod results;
pub mod feed;
pub mod logs;
pub mod tls;
pub mod run;
pub mod supervisor;
pub mod watch;
pub mod settings;
pub mod egress;
pub mod traces;
pub mod models;

use chela_words::{clock, config, event, layout, port, schema, scope, session_key};
