//! `chela openapi`: the monitor's paths for programs, as a gateway describes them at `/api/openapi.json`. Asks no gateway.

use super::Output;
use crate::edge;

pub(super) fn run(output: Output) {
    let document = edge::openapi_document();
    output.show(&document, || format!("{document:#}"));
}
