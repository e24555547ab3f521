//! One forwarding step: what a router does to a frame between its two ports, in place.
//!
//! The checks are those of RFC 1812, section 5.2.2, the least that a router must make; the checksum
//! is not computed anew but updated for the changed word (RFC 1624). A router would answer an
//! expired packet with ICMP; here it is counted and dropped, as the other reasons are.

use etherparse::checksum::u64_16bit_word::{add_slice, ones_complement};
use etherparse::{EtherType, Ethernet2HeaderSlice, Ipv4HeaderSlice};

use crate::experiments::forward::child::routes::Routes;
use crate::experiments::forward::plan::tally::Reason;

/// Bytes of the Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// Offsets in the IPv4 header.
const TTL: usize = 8;
const CHECKSUM: usize = 10;

/// The port behind which the generator sits is not rewritten; this is the source address of what
/// leaves the other.
pub(crate) const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The checksum of a header in which the 16-bit word `from` became `to`: equation 3 of RFC 1624.
pub(crate) fn updated_checksum(old: u16, from: u16, to: u16) -> u16 {
    let sum = u32::from(!old) + u32::from(!from) + u32::from(to);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// Whether the checksum of a whole header holds.
pub(crate) fn checksum_holds(header: &[u8]) -> bool {
    // The word order of the sum does not matter for this question.
    ones_complement(add_slice(0, header)) == 0
}

/// Checks the frame and makes it ready for its next hop: TTL, checksum, Ethernet addresses.
///
/// # Errors
/// Why the frame must be dropped; it is unchanged then.
#[inline]
pub(crate) fn forward(frame: &mut [u8], routes: &Routes) -> Result<(), Reason> {
    let ethernet = Ethernet2HeaderSlice::from_slice(frame).map_err(|_| Reason::NotIpv4)?;
    if ethernet.ether_type() != EtherType::IPV4 {
        return Err(Reason::NotIpv4);
    }
    let packet = &frame[ETHERNET..];
    let header = Ipv4HeaderSlice::from_slice(packet).map_err(|_| Reason::Malformed)?;
    let total = usize::from(header.total_len());
    if total < header.slice().len() || total > packet.len() {
        return Err(Reason::Malformed);
    }
    if !checksum_holds(header.slice()) {
        return Err(Reason::Checksum);
    }
    let ttl = header.ttl();
    if ttl <= 1 {
        return Err(Reason::TtlExpired);
    }
    let hop = routes.lookup(u32::from_be_bytes(header.destination())).ok_or(Reason::NoRoute)?;
    let (old, protocol) = (header.header_checksum(), header.protocol().0);
    let new = updated_checksum(old, u16::from_be_bytes([ttl, protocol]), u16::from_be_bytes([ttl - 1, protocol]));

    let to = routes.mac(hop);
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&OWN_MAC);
    let packet = &mut frame[ETHERNET..];
    packet[TTL] = ttl - 1;
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&new.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv4Header, PacketBuilder};
    use proptest::prelude::*;

    use super::*;

    fn routes() -> Routes {
        Routes::from_list(&[((0x0A00_0000, 8), 3)])
    }

    /// A frame to 10.1.2.3 with a payload of 18 bytes.
    fn frame(ttl: u8) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([4; 6], [5; 6]).ipv4([192, 0, 2, 1], [10, 1, 2, 3], ttl).udp(9, 9);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[7; 18]).unwrap();
        frame
    }

    /// Makes the checksum right again after a change of the header.
    fn seal(frame: &mut [u8]) {
        frame[ETHERNET + CHECKSUM..ETHERNET + CHECKSUM + 2].fill(0);
        let words = frame[ETHERNET..ETHERNET + IPV4].chunks(2);
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
        frame[ETHERNET + CHECKSUM..ETHERNET + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }

    #[test]
    fn a_forwarded_frame_has_one_hop_less_and_new_addresses_and_the_rest_as_it_was() {
        let before = frame(64);
        let mut after = before.clone();
        assert_eq!(forward(&mut after, &routes()), Ok(()));
        assert_eq!(after[..6], routes().mac(3));
        assert_eq!(after[6..12], OWN_MAC);
        let header = Ipv4HeaderSlice::from_slice(&after[ETHERNET..]).unwrap();
        assert_eq!(header.ttl(), 63);
        assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        // All but addresses, TTL and checksum.
        assert_eq!(after[12..ETHERNET + TTL], before[12..ETHERNET + TTL]);
        assert_eq!(after[ETHERNET + TTL + 1..ETHERNET + CHECKSUM], before[ETHERNET + TTL + 1..ETHERNET + CHECKSUM]);
        assert_eq!(after[ETHERNET + CHECKSUM + 2..], before[ETHERNET + CHECKSUM + 2..]);
    }

    /// A change of a good frame, whether its checksum is made right afterwards, and what becomes of
    /// it.
    type Case = (&'static str, fn(&mut Vec<u8>), bool, Reason);

    #[test]
    fn each_bad_frame_is_dropped_for_its_reason_and_left_as_it_was() {
        let cases: [Case; 13] = [
            ("ARP", |f| f[12..14].copy_from_slice(&[8, 6]), false, Reason::NotIpv4),
            ("IPv6 by its type", |f| f[12..14].copy_from_slice(&[0x86, 0xDD]), false, Reason::NotIpv4),
            ("half an Ethernet header", |f| f.truncate(9), false, Reason::NotIpv4),
            ("nothing behind it", |f| f.truncate(ETHERNET), false, Reason::Malformed),
            ("half an IPv4 header", |f| f.truncate(ETHERNET + 19), false, Reason::Malformed),
            ("version 6", |f| f[ETHERNET] = 0x65, true, Reason::Malformed),
            ("a header of 16 bytes", |f| f[ETHERNET] = 0x44, true, Reason::Malformed),
            (
                "a header longer than the frame",
                |f| {
                    f[ETHERNET] = 0x4F;
                    f.truncate(ETHERNET + 30)
                },
                true,
                Reason::Malformed,
            ),
            ("a packet longer than the frame", |f| f[ETHERNET + 2] = 9, true, Reason::Malformed),
            (
                "a packet shorter than its header",
                |f| f[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&[0, 19]),
                true,
                Reason::Malformed,
            ),
            ("a changed address", |f| f[ETHERNET + 12] ^= 1, false, Reason::Checksum),
            ("TTL 0", |f| f[ETHERNET + TTL] = 0, true, Reason::TtlExpired),
            ("a destination of no prefix", |f| f[ETHERNET + 16] = 11, true, Reason::NoRoute),
        ];
        for (name, change, sealed, reason) in cases {
            let mut bad = frame(64);
            change(&mut bad);
            if sealed {
                seal(&mut bad);
            }
            let before = bad.clone();
            assert_eq!(forward(&mut bad, &routes()), Err(reason), "{name}");
            assert_eq!(bad, before, "{name}");
        }
    }

    #[test]
    fn the_last_hop_is_taken_and_no_further() {
        assert_eq!(forward(&mut frame(2), &routes()), Ok(()));
        assert_eq!(forward(&mut frame(1), &routes()), Err(Reason::TtlExpired));
    }

    #[test]
    fn options_are_part_of_the_header() {
        let header = Ipv4Header {
            options: [1, 1, 1, 0].into(),
            destination: [10, 0, 0, 1],
            time_to_live: 9,
            ..Ipv4Header::default()
        };
        let mut header = Ipv4Header { total_len: 24, ..header };
        header.header_checksum = header.calc_header_checksum();
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        header.write(&mut frame).unwrap();
        let mut spoiled = frame.clone();
        assert_eq!(forward(&mut frame, &routes()), Ok(()));
        spoiled[ETHERNET + 21] ^= 1;
        assert_eq!(forward(&mut spoiled, &routes()), Err(Reason::Checksum));
    }

    proptest! {
        #[test]
        fn the_updated_checksum_is_the_one_computed_in_full(mut header: [u8; IPV4], word in 0usize..10, to: u16) {
            prop_assume!(word * 2 != CHECKSUM);
            let mut frame = vec![0; ETHERNET];
            // A version other than 0, as every IPv4 header has: of all zeros the checksum has two
            // forms.
            header[0] = 0x45;
            frame.extend(header);
            seal(&mut frame);
            let at = ETHERNET + word * 2;
            let to = if word == 0 { to | 0x4000 } else { to };
            let from = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let old = u16::from_be_bytes([frame[ETHERNET + CHECKSUM], frame[ETHERNET + CHECKSUM + 1]]);
            frame[at..at + 2].copy_from_slice(&to.to_be_bytes());
            seal(&mut frame);
            let full = u16::from_be_bytes([frame[ETHERNET + CHECKSUM], frame[ETHERNET + CHECKSUM + 1]]);
            prop_assert_eq!(updated_checksum(old, from, to), full);
            prop_assert!(checksum_holds(&frame[ETHERNET..]));
        }

        #[test]
        fn no_frame_makes_it_panic(mut frame: Vec<u8>, start in 0usize..20) {
            // Some begin like IPv4, so that the later checks are reached too.
            if let Some(space) = frame.get_mut(start.min(12)..start.min(12) + 3) {
                space.copy_from_slice(&[8, 0, 0x45]);
            }
            let _ = forward(&mut frame, &routes());
        }
    }
}
