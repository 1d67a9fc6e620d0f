//! Every file of `tests/*.json` is played; see `chela_adapters`.

use chela_adapters::Golden;
use webhook::Webhook;

const CASES: Golden = Golden { folder: env!("CARGO_MANIFEST_DIR"), schema: "webhook/1" };

#[test]
fn inputs_give_the_outputs_that_were_agreed_on() {
    CASES.check::<Webhook>();
}

#[test]
fn the_state_at_the_end_of_every_case_is_small_and_can_be_restored() {
    CASES.check_states::<Webhook>();
}

#[test]
fn snapshots_of_released_versions_are_read() {
    CASES.check_released::<Webhook>();
}

#[test]
fn what_goes_out_is_signed_with_a_named_key() {
    let (outputs, states) = CASES.outputs::<Webhook>();
    let requests: Vec<_> = outputs.iter().filter(|output| output["request"].is_object()).collect();
    assert!(!requests.is_empty());
    for output in requests {
        let signature = output["request"]["headers"]["x-chela-signature"].as_str();
        assert_eq!(signature, Some("sha256=${hmac webhook-key hex ${body}}"), "{output}");
        assert!(output["request"]["body"]["at"].is_u64(), "the time is signed: {output}");
    }
    assert!(states.iter().all(|state| !state.contains("sha256=")), "the state has no signatures");
}
