//! Who comes in, and what everybody else is told.

use super::*;
use crate::config::Auth;
use crate::layout::StateDir;

const TOKEN: &str = "0123456789abcdef";

fn tokens() -> Tokens {
    let auth: Auth = serde_json::from_value(json!({
        "token": TOKEN, "tokens": { "eye": { "token": "fedcba9876543210", "scope": "operator.read" } },
    }))
    .expect("good");
    Tokens::of(&auth, &StateDir::new("nowhere")).expect("good tokens")
}

fn connect(change: impl FnOnce(&mut Value)) -> Result<Granted, Denied> {
    let mut params = json!({
        "minProtocol": 4, "maxProtocol": 4, "auth": { "token": TOKEN },
        "client": { "id": "cli", "version": "1", "platform": "linux", "mode": "cli" },
    });
    change(&mut params);
    let tokens = tokens();
    let facts = Facts { tokens: &tokens, nonce: "n", now: Timestamp(1), has_page: false, locked: None };
    decide(Request::new("connect", params).with_id("1"), &facts)
}

fn scopes(change: impl FnOnce(&mut Value)) -> (Option<Scope>, Vec<String>) {
    let granted = connect(change).expect("comes in");
    (granted.scope, granted.scopes)
}

#[test]
fn scopes_are_what_was_asked_for_as_far_as_the_token_holds_it() {
    let all = scopes(|_| ()).1;
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!(scopes(|params| params["scopes"] = json!([])), (None, vec![]));
    let asked = scopes(|params| params["scopes"] = json!(["operator.read", "operator.talk", "node.x"]));
    assert_eq!(asked, (Some(Scope::Read), vec!["operator.read".to_owned()]));
    let eye = scopes(|params| {
        params["auth"] = json!({ "password": "fedcba9876543210" });
        params["scopes"] = json!(["operator.admin", "operator.read"]);
    });
    assert_eq!(eye, (Some(Scope::Read), vec!["operator.read".to_owned()]));
}

#[test]
fn whoever_may_not_come_in_is_told_why_and_how_it_ends() {
    let check = |change: &dyn Fn(&mut Value), said: &str, code: Value, close: CloseCode| {
        let denied = connect(|params| change(params)).expect_err("refused");
        assert!(denied.error.message.starts_with(said), "{}", denied.error.message);
        let details = denied.error.details.clone().unwrap_or_default();
        assert_eq!((&details["code"], denied.close), (&code, close), "{said}");
    };
    let policy = CloseCode::Policy;
    check(
        &|p| p["auth"] = json!({ "token": "wrong" }),
        "unauthorized: gateway token mismatch",
        json!("AUTH_TOKEN_MISMATCH"),
        policy,
    );
    check(&|p| p["auth"] = json!({}), "device identity required", json!("DEVICE_IDENTITY_REQUIRED"), policy);
    check(&|p| p["minProtocol"] = json!(5), "protocol mismatch", json!("PROTOCOL_MISMATCH"), CloseCode::Protocol);
    check(&|p| p["maxProtocol"] = json!(3), "protocol mismatch", json!("PROTOCOL_MISMATCH"), CloseCode::Protocol);
    check(&|p| p["client"]["id"] = json!("other"), "invalid connect params: at client.id", Value::Null, policy);
    check(&|p| p["bogus"] = json!(1), "invalid connect params: ", Value::Null, policy);
    check(&|p| p["role"] = json!("node"), "invalid role", Value::Null, policy);
    check(
        &|p| p["client"]["id"] = json!("webchat-ui"),
        "origin not allowed",
        json!("CONTROL_UI_ORIGIN_NOT_ALLOWED"),
        policy,
    );
    let probe = connect(|p| {
        p["client"]["mode"] = json!("probe");
        p["minProtocol"] = json!(3);
        p["maxProtocol"] = json!(3);
    });
    assert!(probe.is_ok(), "a probe may be one version older");
}

#[test]
fn a_token_for_a_device_opens_for_that_device_alone_and_ends_with_the_token_it_was_got_with() {
    let tokens = tokens();
    let token = DeviceToken::of(&tokens, "d1", ROLE, "eye").expect("the holder is known").to_string();
    let holder = |tokens: &Tokens, device: &str, token: &str| {
        DeviceToken::holder_of(tokens, device, ROLE, token).map(|principal| (principal.name, principal.scope))
    };
    assert_eq!(holder(&tokens, "d1", &token), Some(("eye".to_owned(), Scope::Read)));
    assert_eq!(holder(&tokens, "d2", &token), None);
    assert_eq!(holder(&tokens, "d1", &token.replace("eye", "owner")), None);
    assert_eq!(holder(&tokens, "d1", "cdt..x"), None);
    let with = |auth: Value| {
        let auth: Auth = serde_json::from_value(auth).expect("good");
        Tokens::of(&auth, &StateDir::new("nowhere")).expect("good tokens")
    };
    let removed = with(json!({ "token": TOKEN }));
    let another =
        with(json!({ "token": TOKEN, "tokens": { "eye": { "token": "another-one-9876", "scope": "operator.read" } } }));
    let wider = with(
        json!({ "token": TOKEN, "tokens": { "eye": { "token": "fedcba9876543210", "scope": "operator.write" } } }),
    );
    assert_eq!(holder(&removed, "d1", &token), None);
    assert_eq!(holder(&another, "d1", &token), None);
    assert_eq!(holder(&wider, "d1", &token), Some(("eye".to_owned(), Scope::Write)), "it may what its token may");
    assert!(removed.keeps(&tokens, "owner") && !removed.keeps(&tokens, "eye"));
    assert!(!another.keeps(&tokens, "eye") && !wider.keeps(&tokens, "eye"));
}
