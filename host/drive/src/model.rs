//! Random interleavings of everything that can happen to an agent, against promises that are simple to state.
//! `CHELA_INTERLEAVINGS` says how many; the suite has ten thousand.

mod world;

use fastrand::Rng;
use world::World;

const MINUTE: u64 = 60_000;

fn count() -> u64 {
    std::env::var("CHELA_INTERLEAVINGS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

#[test]
fn whatever_happens_in_whatever_order_the_promises_hold() {
    let mut told = world::Tally::default();
    for seed in 0..count() {
        let mut world = World::new(seed);
        let moves = 30 + Rng::with_seed(seed).usize(0..200);
        for _ in 0..moves {
            world.happen();
        }
        world.come_to_an_end();
        told.add(&world.tally);
    }
    // A model that never gets anywhere proves nothing.
    assert!(told.prompts > 3 * count() && told.stops > count() / 3, "{told:?}");
    assert!(told.withdrawn > 0 && told.second_tries > 0 && told.given_up > 0 && told.backed_off > 0, "{told:?}");
}

#[test]
fn an_agent_that_does_nothing_is_stopped_and_one_that_works_is_not() {
    for seed in 0..200 {
        let mut idle = World::quiet(seed);
        idle.run_for(24 * 60 * MINUTE, |_| false);
        assert!(idle.is_stopped(), "seed {seed}: {:?}", idle.tally);
        assert!(idle.tally.prompts <= 30, "seed {seed}: {:?}", idle.tally);
        let mut busy = World::quiet(seed);
        busy.run_for(MINUTE, |rng| rng.u8(0..10) > 0);
        assert!(!busy.is_stopped(), "seed {seed}: {:?}", busy.tally);
    }
}
