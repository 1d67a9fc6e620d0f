//! Every file of `tests/*.json` is played; see `chela_adapters`.

use chela_adapters::Golden;
use telegram::Telegram;

const CASES: Golden = Golden { folder: env!("CARGO_MANIFEST_DIR"), schema: "telegram/1" };

#[test]
fn inputs_give_the_outputs_that_were_agreed_on() {
    CASES.check::<Telegram>();
}

#[test]
fn the_state_at_the_end_of_every_case_is_small_and_can_be_restored() {
    CASES.check_states::<Telegram>();
}

#[test]
fn snapshots_of_released_versions_are_read() {
    CASES.check_released::<Telegram>();
}

#[test]
fn the_token_is_only_ever_a_named_secret_in_an_address() {
    let (outputs, states) = CASES.outputs::<Telegram>();
    let calls: Vec<&str> = outputs.iter().filter_map(|output| output["request"]["call"].as_str()).collect();
    assert!(!calls.is_empty());
    for call in calls {
        assert!(call.starts_with("POST https://api.telegram.org/bot${secret telegram-token raw}/"), "{call}");
    }
    assert!(states.iter().all(|state| !state.contains("telegram.org")), "the state has no addresses");
}
