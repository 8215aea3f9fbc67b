//! The remote end of a connection, at the granularity of shares.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an IPv6 address that a site assigns itself.
const HOST_BITS: u32 = 64;

/// An address with a share of its own: an IPv4 host, an IPv6 network, or this host under any of its
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        if address.is_loopback() {
            return Self(Ipv4Addr::LOCALHOST.into());
        }
        Self(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let network = address.to_bits() >> HOST_BITS << HOST_BITS;
                Ipv6Addr::from_bits(network).into()
            }
        })
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_share_whichever_of_its_addresses_it_uses() {
        let of = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("127.0.0.1"), of("127.9.9.9"));
        assert_eq!(of("127.0.0.1"), of("::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
