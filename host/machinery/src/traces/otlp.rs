//! Spans in the format of OTLP over HTTP, as JSON.

use serde_json::{Value, json};

use super::{Kind, Span};

/// One request to a collector.
pub(super) fn request(spans: &[Span], deployment: &str) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                attribute("service.name", "chela"),
                attribute("service.version", env!("CARGO_PKG_VERSION")),
                attribute("deployment.environment.name", deployment),
            ] },
            "scopeSpans": [{ "scope": { "name": "chela", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        }],
    })
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn span(span: &Span) -> Value {
    let started = u128::from(span.started.0) * 1_000_000;
    let ended = started + span.took.as_nanos();
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let kind = match span.kind {
        Kind::Internal => 1,
        Kind::Server => 2,
    };
    let status = match &span.failed {
        Some(said) => json!({ "code": 2, "message": said }),
        None => json!({}),
    };
    json!({
        "traceId": format!("{:032x}", span.place.trace), "spanId": format!("{:016x}", span.place.span),
        "parentSpanId": span.parent.map(|parent| format!("{parent:016x}")).unwrap_or_default(),
        "name": span.name, "kind": kind, "startTimeUnixNano": started.to_string(), "endTimeUnixNano": ended.to_string(),
        "attributes": attributes, "status": status,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Timestamp;
    use crate::traces::{Place, span_of, trace_of};

    #[test]
    fn a_span_is_written_as_collectors_read_it() {
        let told = Span {
            place: Place { trace: trace_of("ws_1"), span: span_of("run-1") },
            parent: Some(7),
            name: "run".into(),
            kind: Kind::Internal,
            started: Timestamp(1_700_000_000_000),
            took: Duration::from_micros(1_500),
            attributes: vec![("chela.agent", "eden".into())],
            failed: Some("timeout".into()),
        };
        let request = request(&[told], "demo");
        let span = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            (span["traceId"].as_str().map(str::len), span["spanId"].as_str().map(str::len)),
            (Some(32), Some(16))
        );
        assert_eq!(span["parentSpanId"], "0000000000000007");
        assert_eq!(span["startTimeUnixNano"], "1700000000000000000");
        assert_eq!(span["endTimeUnixNano"], "1700000000001500000");
        assert_eq!(span["status"], json!({ "code": 2, "message": "timeout" }));
        assert_eq!(span["attributes"][0], json!({ "key": "chela.agent", "value": { "stringValue": "eden" } }));
        assert_eq!(trace_of("ws_1"), trace_of("ws_1"), "the same, whoever tells of it");
        assert_ne!(span_of("run-1"), span_of("run-2"));
    }
}
