//! The files of agents' workspaces, for programs: a folder or a part of a file at a path, never changed here.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{RawQuery, State};
use serde_json::{Value, json};

use super::monitor::read;
use super::params::{Given, Named, Param, bad};
use super::tasks::agent_of;
use super::{Access, Context, Refusal, Routes};
use crate::port::Port;
use crate::tools::{Seen, Unseen, look};

/// Entries of one folder that an answer has.
const ENTRIES_MAX: usize = 1_000;

type Answer = Result<Json<Value>, Refusal>;

pub(super) const PART: &[Param] = &[Param::Offset, Param::Bytes];

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("/api/workspace/{id}/files", Access::Watching, &Port::ALL, folder).get(
        "/api/workspace/{id}/files/{*path}",
        Access::Watching,
        &Port::ALL,
        entry,
    )
}

async fn folder(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    shown(&context, &id, String::new(), &Given::of([])).await
}

async fn entry(
    State(context): State<Context>,
    Named((id, path)): Named<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let given = Given::parse(PART, query.as_deref())?;
    shown(&context, &id, path, &given).await
}

async fn shown(context: &Context, id: &str, path: String, given: &Given) -> Answer {
    let (offset, limit) = given.part()?;
    let agent = agent_of(context, id)?;
    let home: PathBuf = context.workspace(&agent);
    let wanted = path.clone();
    let seen = read(move || look(&home, &wanted, offset, limit)).await?;
    let mut answer = match seen.map_err(refusal)? {
        Seen::Folder { entries, more } => {
            let row = |(name, kind): (String, String)| json!({ "name": name, "kind": kind });
            let more = more || entries.len() > ENTRIES_MAX;
            let entries: Vec<Value> = entries.into_iter().take(ENTRIES_MAX).map(row).collect();
            json!({ "kind": "directory", "entries": entries, "more": more })
        }
        Seen::File { text, bytes, next } => {
            json!({ "kind": "file", "size": bytes, "offset": offset, "content": text, "nextOffset": next })
        }
    };
    answer["agentId"] = json!(agent);
    answer["path"] = json!(path);
    Ok(Json(answer))
}

fn refusal(unseen: Unseen) -> Refusal {
    match unseen {
        Unseen::Missing(path) => {
            let path: String = path.chars().take(128).collect();
            Refusal::NoSuch { what: format!("file {path} in this workspace") }
        }
        Unseen::Refused(said) => bad("path", said),
        Unseen::Unreadable(said) => Refusal::Unavailable { said },
    }
}
