//! Every file of `tests/*.json` is played; see `chela_adapters`.

use chela_adapters::Golden;
use slack::Slack;

const CASES: Golden = Golden { folder: env!("CARGO_MANIFEST_DIR"), schema: "slack/1" };

#[test]
fn inputs_give_the_outputs_that_were_agreed_on() {
    CASES.check::<Slack>();
}

#[test]
fn the_state_at_the_end_of_every_case_is_small_and_can_be_restored() {
    CASES.check_states::<Slack>();
}

#[test]
fn snapshots_of_released_versions_are_read() {
    CASES.check_released::<Slack>();
}

#[test]
fn tokens_are_only_ever_named_secrets() {
    let (outputs, states) = CASES.outputs::<Slack>();
    let requests: Vec<_> = outputs.iter().filter(|output| output["request"].is_object()).collect();
    assert!(!requests.is_empty());
    for output in requests {
        let (call, token) = (output["request"]["call"].as_str(), output["request"]["authorization"].as_str());
        match (call.expect("a call"), token) {
            ("POST https://slack.com/api/apps.connections.open", token) => {
                assert_eq!(token, Some("Bearer ${secret slack-app-token raw}"));
            }
            (call, token) if call.starts_with("POST https://slack.com/api/") => {
                assert_eq!(token, Some("Bearer ${secret slack-bot-token raw}"));
            }
            (call, token) => {
                assert_eq!((call.starts_with("POST https://hooks.slack.com/"), token), (true, None), "{call}")
            }
        }
    }
    assert!(states.iter().all(|state| !state.contains("ticket=")), "no address of a socket is kept");
}
