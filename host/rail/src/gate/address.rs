//! Which addresses may be dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

/// How far into the network a rail may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// The public internet only.
    #[default]
    Public,
    /// Private networks too, for rails behind a leased line.
    Private,
    /// This machine only, for simulators.
    Loopback,
}

/// Why an address may not be dialled, or none if it may.
pub(crate) fn refusal(address: IpAddr, reach: Reach) -> Option<&'static str> {
    let v4 = match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => embedded(v6),
    };
    let kind = match (v4, address) {
        (Some(v4), _) => kind_of_v4(v4),
        (None, IpAddr::V6(v6)) => kind_of_v6(v6),
        (None, IpAddr::V4(v4)) => kind_of_v4(v4),
    };
    match (kind, reach) {
        (AddressKind::Public, Reach::Public | Reach::Private)
        | (AddressKind::Private(_), Reach::Private)
        | (AddressKind::Loopback, Reach::Loopback) => None,
        (AddressKind::Public, Reach::Loopback) => Some("a public address"),
        (AddressKind::Loopback, _) => Some("a loopback address"),
        (AddressKind::Private(what) | AddressKind::Never(what), _) => Some(what),
    }
}

enum AddressKind {
    Public,
    Private(&'static str),
    Loopback,
    Never(&'static str),
}

/// Whoever reads there may learn the machine's own credentials.
const METADATA: &str = "an address where clouds keep their metadata";

/// An IPv4 address that travels inside an IPv6 one reaches the same machine: mapped, compatible, NAT64 and 6to4.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = v6.segments();
    let low = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => low(a, b),
        [0, 0, 0, 0, 0, 0, a, b] if (a, b) != (0, 0) && (a, b) != (0, 1) => low(a, b),
        [0x2002, a, b, ..] => low(a, b),
        _ => None,
    }
}

fn kind_of_v4(v4: Ipv4Addr) -> AddressKind {
    let [a, b, c, _] = v4.octets();
    match (a, b, c) {
        _ if v4.is_loopback() => AddressKind::Loopback,
        (0, ..) => AddressKind::Never("an address of this network"),
        // Azure's and Alibaba's; the first is public, the second shared, and both lead to the machine's own host.
        _ if matches!(v4.octets(), [168, 63, 129, 16] | [100, 100, 100, 200]) => AddressKind::Never(METADATA),
        (169, 254, _) => AddressKind::Never("a link-local address, where clouds keep their metadata"),
        (100, 64..=127, _) => AddressKind::Private("a shared address (CGNAT)"),
        _ if v4.is_private() => AddressKind::Private("a private address"),
        (192, 0, 0) | (198, 18..=19, _) => AddressKind::Never("a reserved address"),
        _ if v4.is_documentation() => AddressKind::Never("an address of documentation"),
        (192, 88, 99) => AddressKind::Never("a relay address"),
        (224..=239, ..) => AddressKind::Never("a multicast address"),
        (240..=255, ..) => AddressKind::Never("a reserved address"),
        _ => AddressKind::Public,
    }
}

fn kind_of_v6(v6: Ipv6Addr) -> AddressKind {
    let first = v6.segments()[0];
    match first {
        _ if v6.is_loopback() => AddressKind::Loopback,
        _ if v6.is_unspecified() => AddressKind::Never("the unspecified address"),
        0xfe80..=0xfebf => AddressKind::Never("a link-local address"),
        0xfec0..=0xfeff => AddressKind::Never("a site-local address"),
        // Amazon's and Google's are unique local ones.
        0xfd00 if v6.segments()[1] == 0xec2 => AddressKind::Never(METADATA),
        0xfd20 if v6.segments()[1] == 0xce => AddressKind::Never(METADATA),
        0xfc00..=0xfdff => AddressKind::Private("a unique local address"),
        0xff00..=0xffff => AddressKind::Never("a multicast address"),
        0x2001 if v6.segments()[1] == 0xdb8 => AddressKind::Never("an address of documentation"),
        0x2001 if v6.segments()[1] < 0x200 => AddressKind::Never("a reserved address"),
        0x2000..=0x3fff => AddressKind::Public,
        _ => AddressKind::Never("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(text: &str, reach: Reach) -> bool {
        refusal(text.parse().expect(text), reach).is_none()
    }

    #[test]
    fn public_rails_are_reached_and_nothing_inside_is() {
        for public in [
            "1.1.1.1",
            "102.89.23.4",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "192.0.1.1",
            "100.63.255.255",
            "172.32.0.1",
        ] {
            assert!(may(public, Reach::Public), "{public}");
        }
        for inside in [
            "127.0.0.1",
            "127.255.0.3",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.5",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::ffff:169.254.169.254",
        ] {
            assert!(!may(inside, Reach::Public), "{inside}");
        }
    }

    #[test]
    fn a_wider_reach_opens_what_it_names_and_never_the_metadata() {
        assert!(
            may("10.1.2.3", Reach::Private)
                && may("fc00::1", Reach::Private)
                && may("1.1.1.1", Reach::Private)
        );
        assert!(!may("127.0.0.1", Reach::Private));
        assert!(may("168.63.129.17", Reach::Public) && may("100.100.100.201", Reach::Private));
        assert!(
            may("127.0.0.1", Reach::Loopback)
                && may("::1", Reach::Loopback)
                && may("::ffff:127.0.0.1", Reach::Loopback)
        );
        assert!(!may("10.1.2.3", Reach::Loopback) && !may("1.1.1.1", Reach::Loopback));
        for reach in [Reach::Public, Reach::Private, Reach::Loopback] {
            for metadata in [
                "169.254.169.254",
                "168.63.129.16",
                "100.100.100.200",
                "::ffff:168.63.129.16",
                "64:ff9b::6464:64c8",
                "fd00:ec2::254",
                "fd20:ce::254",
            ] {
                assert!(!may(metadata, reach), "{metadata}");
            }
        }
    }
}
