//! What became of the packets of a pass.

use serde::{Deserialize, Serialize};

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Reason {
    /// Another protocol than IPv4 behind the Ethernet header, or no whole Ethernet header.
    NotIpv4,
    /// Version, header length or total length are impossible.
    Malformed,
    /// The header's checksum is wrong.
    Checksum,
    /// The time to live does not allow another hop.
    TtlExpired,
    /// No prefix of the table holds the destination.
    NoRoute,
}

impl Reason {
    pub(crate) const ALL: [Self; 5] = [Self::NotIpv4, Self::Malformed, Self::Checksum, Self::TtlExpired, Self::NoRoute];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotIpv4 => "not IPv4",
            Self::Malformed => "malformed header",
            Self::Checksum => "wrong checksum",
            Self::TtlExpired => "TTL expired",
            Self::NoRoute => "no route",
        }
    }
}

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) forwarded: u64,
    /// By [`Reason`].
    pub(crate) dropped: [u64; Reason::ALL.len()],
}

impl Tally {
    /// Every packet that came has gone one way or the other.
    pub(crate) fn is_conserved(&self) -> bool {
        self.received == self.forwarded + self.dropped.iter().sum::<u64>()
    }
}
