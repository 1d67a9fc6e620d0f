//! Which addresses are of the public network, and what the others are. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is, if it is not one of the public network that anybody may be.
pub(super) fn inner(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => inner_v4(address),
        IpAddr::V6(address) => inner_v6(address),
    }
}

fn inner_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [169, 254, ..] => "link-local",
        [100, 64..=127, ..] => "of a carrier's own network",
        [192, 0, 0, _] | [192, 88, 99, _] => "of the protocol itself",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "for documentation",
        [198, 18..=19, ..] => "for benchmarks",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

/// Only global unicast (2000::/3) is public, and not all of it.
fn inner_v6(address: Ipv6Addr) -> Option<&'static str> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0, 0, 0, 0, 0, 0xffff, ..] => "a mapped IPv4 address",
        [0, 0, 0, 0, 0, 0, ..] => "a compatible IPv4 address",
        [0x64, 0xff9b, ..] => "a translated IPv4 address",
        [0xfc00..=0xfdff, ..] => "unique-local",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xfec0..=0xfeff, ..] => "site-local",
        [0xff00..=0xffff, ..] => "multicast",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => "for documentation",
        // Teredo and its neighbours, and 6to4: each carries an IPv4 address of anybody's choice.
        [0x2001, 0..=0x01ff, ..] => "of the protocol itself",
        [0x2002, ..] => "a 6to4 address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "not of the public network",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_network_are_public() {
        let check = |address: &str, expected: Option<&str>| {
            assert_eq!(inner(address.parse().expect("an address")), expected, "{address}");
        };
        check("1.1.1.1", None);
        check("8.8.8.8", None);
        check("93.184.215.14", None);
        check("172.15.255.255", None);
        check("172.32.0.1", None);
        check("100.63.255.255", None);
        check("100.128.0.0", None);
        check("223.255.255.255", None);
        check("0.0.0.0", Some("unspecified"));
        check("0.1.2.3", Some("unspecified"));
        check("127.0.0.1", Some("loopback"));
        check("127.255.255.254", Some("loopback"));
        check("10.0.0.1", Some("private"));
        check("172.16.0.1", Some("private"));
        check("172.31.255.255", Some("private"));
        check("192.168.1.1", Some("private"));
        check("169.254.169.254", Some("link-local"));
        check("100.64.0.1", Some("of a carrier's own network"));
        check("192.0.0.8", Some("of the protocol itself"));
        check("192.0.2.1", Some("for documentation"));
        check("198.51.100.1", Some("for documentation"));
        check("203.0.113.1", Some("for documentation"));
        check("198.19.255.255", Some("for benchmarks"));
        check("224.0.0.1", Some("multicast"));
        check("240.0.0.1", Some("reserved"));
        check("255.255.255.255", Some("reserved"));
        check("2606:4700:4700::1111", None);
        check("2a00:1450:4001:80b::200e", None);
        check("2001:4860:4860::8888", None);
        check("::", Some("unspecified"));
        check("::1", Some("loopback"));
        check("::ffff:127.0.0.1", Some("a mapped IPv4 address"));
        check("::ffff:8.8.8.8", Some("a mapped IPv4 address"));
        check("::7f00:1", Some("a compatible IPv4 address"));
        check("64:ff9b::7f00:1", Some("a translated IPv4 address"));
        check("64:ff9b:1::1", Some("a translated IPv4 address"));
        check("fd00:ec2::254", Some("unique-local"));
        check("fe80::1", Some("link-local"));
        check("fec0::1", Some("site-local"));
        check("ff02::1", Some("multicast"));
        check("2001:db8::1", Some("for documentation"));
        check("3fff:fff::1", Some("for documentation"));
        check("2001::1", Some("of the protocol itself"));
        check("2002:7f00:1::", Some("a 6to4 address"));
        check("100::1", Some("not of the public network"));
        check("::ffff:0:127.0.0.1", Some("not of the public network"));
        check("4000::1", Some("not of the public network"));
    }
}
