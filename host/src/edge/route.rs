//! The table of routes: a path, a verb, who may use it and on which listeners. There is no other way to add a path.

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::{Context, Refusal, gateway, guard, upgrade};
use crate::port::Port;
use crate::scope::Scope;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone: it tells nothing and changes nothing, or tells by itself whose call it is.
    Open,
    /// Any token; what it carries is checked by the method it calls.
    PerMethod,
    Needs(Scope),
    /// Like `Needs(Scope::Read)`, but open to this machine on the monitor's own port where the configuration says so.
    Watching,
}

#[derive(Clone)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub ports: &'static [Port],
    handler: MethodRouter<Context>,
}

#[derive(Clone, Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    pub fn get<H, T>(self, path: &'static str, access: Access, ports: &'static [Port], handler: H) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        self.add(Method::GET, MethodFilter::GET, path, access, ports, handler)
    }

    pub fn post<H, T>(self, path: &'static str, access: Access, ports: &'static [Port], handler: H) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        self.add(Method::POST, MethodFilter::POST, path, access, ports, handler)
    }

    pub fn patch<H, T>(self, path: &'static str, access: Access, ports: &'static [Port], handler: H) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        self.add(Method::PATCH, MethodFilter::PATCH, path, access, ports, handler)
    }

    fn add<H, T>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        access: Access,
        ports: &'static [Port],
        handler: H,
    ) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        self.0.push(Route { method, path, access, ports, handler: on(filter, handler) });
        self
    }

    pub fn list(&self) -> &[Route] {
        &self.0
    }

    /// The router of one listener: its own paths behind the guards that all listeners share.
    pub(super) fn router(&self, port: Port, context: &Context) -> Router {
        let own = || self.0.iter().filter(|route| route.ports.contains(&port));
        let known = own().map(|route| route.path).collect::<Vec<_>>().join(" ");
        let routes = own().fold(Router::new(), |router, route| {
            let (access, path, context) = (route.access, route.path, context.clone());
            let guarded = route.handler.clone().route_layer(from_fn(move |request, next| {
                guard::authorise(context.clone(), access, (port, path), request, next)
            }));
            router.route(path, guarded)
        });
        let socket_context = context.clone();
        routes
            .fallback(move |request: Request| async move {
                // Clients of the protocol may connect at any path of the gateway.
                if port == Port::Gateway && upgrade::is_asked(&request) {
                    return gateway::open(State(socket_context), request).await.into_response();
                }
                Refusal::NoSuchPath { path: shown(&request), listener: port.as_str(), known }.into_response()
            })
            .method_not_allowed_fallback(|request: Request| async move {
                Refusal::NoSuchVerb { path: shown(&request), method: request.method().to_string() }
            })
            .layer(from_fn_with_state((context.clone(), port), guard::admit))
            .with_state(context.clone())
    }
}

/// A path as an answer repeats it: not at any length.
fn shown(request: &Request) -> String {
    request.uri().path().chars().take(200).collect()
}
