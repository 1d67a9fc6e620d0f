//! Every file of `tests/*.json` is played; see `chela_adapters`.

use chela_adapters::Golden;
use discord::Discord;

const CASES: Golden = Golden { folder: env!("CARGO_MANIFEST_DIR"), schema: "discord/1" };

#[test]
fn inputs_give_the_outputs_that_were_agreed_on() {
    CASES.check::<Discord>();
}

#[test]
fn the_state_at_the_end_of_every_case_is_small_and_can_be_restored() {
    CASES.check_states::<Discord>();
}

#[test]
fn snapshots_of_released_versions_are_read() {
    CASES.check_released::<Discord>();
}

#[test]
fn the_token_is_only_ever_a_named_secret() {
    let (outputs, states) = CASES.outputs::<Discord>();
    for output in outputs {
        let text = output["send"].as_str().unwrap_or_default();
        assert!(!text.contains("\"token\"") || text.contains("\"token\":\"${secret discord-token json}\""), "{text}");
    }
    assert!(states.iter().all(|state| !state.contains("authorization")), "the state has no headers");
}
