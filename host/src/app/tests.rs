//! That parts are watched over.

use super::*;

#[tokio::test]
async fn a_part_that_ends_or_panics_by_itself_is_noticed_and_one_that_was_told_is_not_missed() {
    let mut parts = Parts::default();
    parts.spawn("a part that ends", async {});
    assert!(matches!(parts.died().await, Error::Died { part: "a part that ends" }));
    parts.spawn("a part that panics", async { panic!("for the test") });
    assert!(matches!(parts.died().await, Error::Died { .. }));
    let stop = parts.stop.clone();
    parts.spawn("a part that goes on", async move { stop.cancelled().await });
    parts.end().await;
    assert!(parts.tasks.is_empty());
}
