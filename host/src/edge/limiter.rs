//! How often one client may do a thing: a rate, after a burst.
//! Keeps true: memory is bounded however many clients come. Never: sleeps.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::config::Limits;

/// Addresses remembered at once.
const KEYS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// Time that gives back one use.
    pub(super) every: Duration,
    pub(super) burst: u32,
}

/// Who asks: an address, and whose token it shows. What strangers at the same address do takes nothing from its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asks {
    network: IpAddr,
    holder: Option<String>,
}

impl Asks {
    pub(super) fn new(client: IpAddr, holder: Option<String>) -> Self {
        Self { network: network_of(client), holder }
    }
}

impl From<IpAddr> for Asks {
    fn from(client: IpAddr) -> Self {
        Self::new(client, None)
    }
}

/// For each who asks, the moment at which its whole burst is free again.
#[derive(Default)]
pub(super) struct Limiter(Mutex<HashMap<Asks, Duration>>);

impl Limiter {
    /// Takes one use; `Err` tells how long to wait for the next.
    pub(super) fn take(&self, client: impl Into<Asks>, quota: Quota, now: Duration) -> Result<(), Duration> {
        let client = client.into();
        let mut whole_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = after_one_more(&whole_at, &client, quota, now)?;
        if whole_at.len() >= KEYS_MAX && !whole_at.contains_key(&client) {
            forget_some(&mut whole_at, now);
        }
        whole_at.insert(client, at);
        Ok(())
    }

    /// Whether a use is free, without taking it.
    pub(super) fn peek(&self, client: IpAddr, quota: Quota, now: Duration) -> Result<(), Duration> {
        let whole_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        after_one_more(&whole_at, &client.into(), quota, now).map(|_| ())
    }
}

/// One client: an address of IPv4, or what one subscriber of IPv6 has at hand.
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        other => other,
    }
}

/// Makes room: whoever is idle goes, else whoever has used least.
fn forget_some(whole_at: &mut HashMap<Asks, Duration>, now: Duration) {
    whole_at.retain(|_, at| *at > now);
    if whole_at.len() >= KEYS_MAX
        && let Some(least) = whole_at.iter().min_by_key(|(_, at)| **at).map(|(client, _)| client.clone())
    {
        whole_at.remove(&least);
    }
}

fn after_one_more(
    whole_at: &HashMap<Asks, Duration>,
    client: &Asks,
    quota: Quota,
    now: Duration,
) -> Result<Duration, Duration> {
    let whole = quota.every * quota.burst;
    // A burst that was used under another quota is never longer than the one that holds now.
    let at = whole_at.get(client).copied().unwrap_or(now).clamp(now, now + whole) + quota.every;
    match (at - now).checked_sub(whole) {
        None | Some(Duration::ZERO) => Ok(at),
        Some(too_early) => Err(too_early),
    }
}

/// The limiters of the edge.
#[derive(Default)]
pub struct Limiters {
    pub(super) requests: Limiter,
    pub(super) wrong_tokens: Limiter,
}

/// Ten wrong tokens at once, then one every thirty seconds.
pub(super) const WRONG_TOKENS: Quota = Quota { every: Duration::from_secs(30), burst: 10 };

pub(super) fn requests_quota(limits: &Limits) -> Quota {
    Quota { every: Duration::from_secs(1) / limits.requests_per_second, burst: limits.requests_burst }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { every: Duration::from_secs(2), burst: 3 };
    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let limiter = Limiter::default();
        let at = |client, seconds| limiter.take(client, QUOTA, Duration::from_secs(seconds));
        assert_eq!([at(A, 0), at(A, 0), at(A, 0)], [Ok(()); 3]);
        assert_eq!(at(A, 0), Err(Duration::from_secs(2)));
        assert_eq!(at(B, 0), Ok(()), "another client has its own");
        assert_eq!(at(A, 1), Err(Duration::from_secs(1)));
        assert_eq!(at(A, 2), Ok(()));
        assert_eq!(at(A, 2), Err(Duration::from_secs(2)));
        assert_eq!(limiter.peek(A, QUOTA, Duration::from_secs(100)), Ok(()));
        assert_eq!([at(A, 100), at(A, 100), at(A, 100)], [Ok(()); 3]);
        assert!(at(A, 100).is_err(), "peeking took nothing");
        let wider = Quota { every: Duration::from_millis(1), burst: 10 };
        assert_eq!(
            limiter.take(A, wider, Duration::from_secs(100)),
            Err(Duration::from_millis(1)),
            "a new quota holds at once"
        );
    }

    #[test]
    fn memory_is_bounded_and_idle_clients_make_room() {
        let limiter = Limiter::default();
        let client = |n: u32| IpAddr::V4(n.into());
        for n in 0..KEYS_MAX as u32 {
            limiter.take(client(n), QUOTA, Duration::ZERO).expect("room");
        }
        limiter.take(client(u32::MAX), QUOTA, Duration::ZERO).expect("the least busy one made room");
        assert_eq!(limiter.0.lock().expect("not poisoned").len(), KEYS_MAX);
        limiter.take(client(u32::MAX - 1), QUOTA, Duration::from_secs(2)).expect("the idle ones were forgotten");
        assert_eq!(limiter.0.lock().expect("not poisoned").len(), 1);
    }

    #[test]
    fn a_subscriber_of_ipv6_is_one_client_and_a_mapped_address_is_its_own() {
        let check = |address: &str, network: &str| {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(network_of(parse(address)), parse(network));
        };
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("::ffff:192.0.2.1", "192.0.2.1");
        check("::1", "::1");
        check("192.0.2.1", "192.0.2.1");
    }
}
