//! The table of methods: a name, a scope, the shape of its parameters and what answers it.
//! HTTP and WebSocket serve the same table. Keeps true: scope and parameters are checked, and a change is audited, before a method runs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use axum::extract::Request as HttpRequest;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Context;
use super::audit::{self, Audit, Of};
use super::frame::{ErrorShape, Request};
use super::gateway::Connected;
use super::guard::{Client, client_of};
use crate::schema::{Problem, Schema};
use crate::scope::Scope;
use crate::settings::Principal;
use crate::traces::{self, Begin};

type Answer = Pin<Box<dyn Future<Output = Result<Reply, ErrorShape>> + Send>>;

/// What comes after the first answer, for the same request.
pub(super) type Later = Pin<Box<dyn Future<Output = Result<Value, ErrorShape>> + Send>>;

/// What a method answers; one that starts something answers again when it has ended.
pub(super) struct Reply {
    pub(super) payload: Payload,
    pub(super) later: Option<Later>,
}

pub(super) enum Payload {
    Value(Value),
    /// JSON that was written before, for many.
    Text(Arc<str>),
}

impl From<Value> for Reply {
    fn from(payload: Value) -> Self {
        Self { payload: Payload::Value(payload), later: None }
    }
}

impl Reply {
    pub(super) fn into_value(self) -> Value {
        match self.payload {
            Payload::Value(value) => value,
            Payload::Text(text) => serde_json::from_str(&text).unwrap_or_default(),
        }
    }
}

/// Who calls a method, and over what.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) name: String,
    /// None for who came in and asked for no scope.
    pub(super) scope: Option<Scope>,
    pub(super) client: Client,
    /// The connection that further frames go to; none over HTTP.
    pub(super) connection: Option<Arc<Connected>>,
}

impl Caller {
    /// Somebody who asks once, over HTTP, on a route that asks for a token.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let principal = request.extensions().get::<Principal>().cloned().expect("the route asks for a token");
        Self { name: principal.name, scope: Some(principal.scope), client: client_of(request), connection: None }
    }
}

struct Method {
    scope: Scope,
    /// It may change something: it is audited, and a stop lets it finish.
    changes: bool,
    params: LazyLock<Schema>,
    run: Box<dyn Fn(Context, Caller, Value) -> Answer + Send + Sync>,
}

#[derive(Default)]
pub struct Methods(BTreeMap<&'static str, Method>);

impl Methods {
    pub fn add<P, R, F>(self, name: &'static str, scope: Scope, run: fn(Context, P) -> F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + Send,
        F: Future<Output = Result<R, ErrorShape>> + Send + 'static,
    {
        self.insert::<P, _, _>(name, scope, move |context, _, params| {
            let answer = run(context, params);
            async move {
                let value = serde_json::to_value(answer.await?);
                value.map(Reply::from).map_err(|error| ErrorShape::unavailable(error.to_string()))
            }
        })
    }

    /// A method that only waits, whatever scope it takes: it changes nothing, so it is not audited and holds up no stop.
    pub(super) fn add_waiting<P, F>(self, name: &'static str, scope: Scope, run: fn(Context, P) -> F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Value, ErrorShape>> + Send + 'static,
    {
        let mut methods = self.insert::<P, _, _>(name, scope, move |context, _, params| {
            let answer = run(context, params);
            async move { answer.await.map(Reply::from) }
        });
        if let Some(method) = methods.0.get_mut(name) {
            method.changes = false;
        }
        methods
    }

    /// A method that must know who calls, or that answers twice.
    pub(super) fn add_for<P, F>(self, name: &'static str, scope: Scope, run: fn(Context, Caller, P) -> F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Reply, ErrorShape>> + Send + 'static,
    {
        self.insert::<P, _, _>(name, scope, run)
    }

    fn insert<P, F, R>(mut self, name: &'static str, scope: Scope, run: R) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Reply, ErrorShape>> + Send + 'static,
        R: Fn(Context, Caller, P) -> F + Send + Sync + 'static,
    {
        let run = move |context: Context, caller: Caller, params: Value| -> Answer {
            // The schema has passed them, so this fails only on what a schema cannot tell.
            match serde_json::from_value(params) {
                Ok(params) => Box::pin(run(context, caller, params)),
                Err(error) => Box::pin(std::future::ready(Err(ErrorShape::invalid(error.to_string())))),
            }
        };
        self.0.insert(
            name,
            Method { scope, changes: scope != Scope::Read, params: LazyLock::new(Schema::of::<P>), run: Box::new(run) },
        );
        self
    }

    /// Every method with the scope it needs.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, Scope)> {
        self.0.iter().map(|(name, method)| (*name, method.scope))
    }

    /// Whether a request may be made: by its name, the caller's scope and its parameters.
    pub(super) fn check(&self, scope: Option<Scope>, name: &str, params: &Value) -> Result<(), ErrorShape> {
        let method = self.0.get(name).ok_or_else(|| {
            ErrorShape::invalid(format!("unknown method: {}", name.chars().take(128).collect::<String>()))
        })?;
        if !scope.is_some_and(|scope| scope.holds(method.scope)) {
            return Err(ErrorShape::missing_scope(method.scope));
        }
        match method.params.problems(params) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(invalid_params(name, &problems)),
        }
    }

    pub(super) async fn call(&self, context: &Context, caller: &Caller, request: Request) -> Result<Reply, ErrorShape> {
        let name = request.method;
        let params = request.params.filter(|params| !params.is_null()).unwrap_or_else(|| json!({}));
        self.check(caller.scope, &name, &params)?;
        let method = &self.0[name.as_str()];
        let of = method.changes.then(|| audit::of(&params));
        let begin = || Begin::new(format!("method {name}"), traces::Kind::Server).with("rpc.method", name.clone());
        let work = async {
            let answer = (method.run)(context.clone(), caller.clone(), params);
            match of {
                Some(of) => change(context, caller, &name, of, answer).await,
                None => answer.await,
            }
        };
        traces::traced(&context.clock, begin, work, |answer, _| match answer {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{:?}", error.code)),
        })
        .await
    }
}

/// Makes a change once its line is in the audit log, on a task of its own: a caller that hangs up must not stop it halfway.
pub(super) async fn change<R: Send + 'static>(
    context: &Context,
    caller: &Caller,
    name: &str,
    of: Of,
    change: impl Future<Output = Result<R, ErrorShape>> + Send + 'static,
) -> Result<R, ErrorShape> {
    let entry = context.audit.asked(Audit::entry(context, &caller.name, caller.client.0, name, of))?;
    let context = context.clone();
    let change = context.clone().changes.spawn(traces::carried(async move {
        let outcome = change.await;
        context.audit.done(entry, context.clock.now(), outcome.as_ref().map(|_| ()));
        outcome
    }));
    change.await.unwrap_or_else(|_| Err(ErrorShape::unavailable("the method failed; see the gateway's log")))
}

fn invalid_params(name: &str, problems: &[Problem]) -> ErrorShape {
    let said: Vec<String> = problems.iter().map(Problem::at).collect();
    ErrorShape::invalid(format!("invalid {name} params: {}", said.join("; ")))
        .with_details(json!({ "issues": problems }))
}
