//! The table of methods: a name, a scope, the shape of its parameters and what answers it.
//! HTTP and WebSocket serve the same table. Keeps true: scope and parameters are checked, and a change is audited, before a method runs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::frame::{ErrorShape, Request};
use super::guard::Client;
use super::{Audit, Context};
use crate::schema::{Problem, Schema};
use crate::scope::Scope;
use crate::settings::Principal;

type Answer = Pin<Box<dyn Future<Output = Result<Value, ErrorShape>> + Send>>;

struct Method {
    scope: Scope,
    params: LazyLock<Schema>,
    run: Box<dyn Fn(Context, Value) -> Answer + Send + Sync>,
}

#[derive(Default)]
pub struct Methods(BTreeMap<&'static str, Method>);

impl Methods {
    pub fn add<P, R, F>(mut self, name: &'static str, scope: Scope, run: fn(Context, P) -> F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + Send,
        F: Future<Output = Result<R, ErrorShape>> + Send + 'static,
    {
        let run = move |context: Context, params: Value| -> Answer {
            Box::pin(async move {
                // The schema has passed them, so this fails only on what a schema cannot tell.
                let params = serde_json::from_value(params).map_err(|error| ErrorShape::invalid(error.to_string()))?;
                let answer = run(context, params).await?;
                serde_json::to_value(answer).map_err(|error| ErrorShape::unavailable(error.to_string()))
            })
        };
        self.0.insert(name, Method { scope, params: LazyLock::new(Schema::of::<P>), run: Box::new(run) });
        self
    }

    /// Every method with the scope it needs.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, Scope)> {
        self.0.iter().map(|(name, method)| (*name, method.scope))
    }

    pub(super) async fn call(
        &self,
        context: &Context,
        caller: &Principal,
        client: Client,
        request: Request,
    ) -> Result<Value, ErrorShape> {
        let name = request.method;
        let method = self.0.get(name.as_str()).ok_or_else(|| {
            ErrorShape::invalid(format!("unknown method: {}", name.chars().take(128).collect::<String>()))
        })?;
        if !caller.scope.holds(method.scope) {
            return Err(ErrorShape::missing_scope(method.scope));
        }
        let params = request.params.filter(|params| !params.is_null()).unwrap_or_else(|| json!({}));
        let problems = method.params.problems(&params);
        if !problems.is_empty() {
            return Err(invalid_params(&name, &problems));
        }
        let answer = (method.run)(context.clone(), params);
        if method.scope == Scope::Read {
            return answer.await;
        }
        change(context, caller, client, &name, answer).await
    }
}

/// Makes a change once its line is in the audit log, on a task of its own: a caller that hangs up must not stop it halfway.
pub(super) async fn change(
    context: &Context,
    caller: &Principal,
    client: Client,
    name: &str,
    change: impl Future<Output = Result<Value, ErrorShape>> + Send + 'static,
) -> Result<Value, ErrorShape> {
    let entry = context.audit.asked(Audit::entry(context, caller, client.0, name))?;
    let context = context.clone();
    let change = context.clone().changes.spawn(async move {
        let outcome = change.await;
        context.audit.done(entry, context.clock.now(), outcome.as_ref().map(|_| ()));
        outcome
    });
    change.await.unwrap_or_else(|_| Err(ErrorShape::unavailable("the method failed; see the gateway's log")))
}

fn invalid_params(name: &str, problems: &[Problem]) -> ErrorShape {
    let said: Vec<String> = problems.iter().map(at).collect();
    ErrorShape::invalid(format!("invalid {name} params: {}", said.join("; ")))
        .with_details(json!({ "issues": problems }))
}

fn at(problem: &Problem) -> String {
    let place = if problem.path.is_empty() { "root" } else { &problem.path };
    format!("at {place}: {}", problem.message)
}
