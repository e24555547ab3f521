//! What the generator sends, and how the other side sees that it arrived: a trace of frames that
//! repeats.
//!
//! Each frame carries its place in the trace, so its receiver can compare it byte by byte
//! with what was sent. A share of the frames can be bad, each for one of the reasons for which a
//! router drops; of those the trace knows that they must not arrive.

use etherparse::PacketBuilder;

use crate::experiments::forward::child::packet::{ETHERNET, IPV4, OWN_MAC, checksum_holds};
use crate::experiments::forward::child::routes::{Routes, UNROUTED};
use crate::experiments::forward::plan::tally::Reason;
use crate::kit::random::Rng;

/// Frames of a trace with few flows. Together with the smallest size it stays in the second-level
/// cache.
const FRAMES: usize = 1024;
/// Bytes before the payload.
const HEADERS: usize = ETHERNET + IPV4 + 8;
/// Time to live of good packets.
const TTL: u8 = 64;

/// What may be wrong with a frame of the trace.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Version,
    HeaderLength,
    TotalLength,
    Checksum,
    Ttl,
    Destination,
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::Version, Self::HeaderLength, Self::TotalLength, Self::Checksum, Self::Ttl, Self::Destination];

    fn reason(self) -> Reason {
        match self {
            Self::Version | Self::HeaderLength | Self::TotalLength => Reason::Malformed,
            Self::Checksum => Reason::Checksum,
            Self::Ttl => Reason::TtlExpired,
            Self::Destination => Reason::NoRoute,
        }
    }
}

/// Frames of one size.
#[derive(Debug)]
pub(crate) struct Trace {
    bytes: Vec<u8>,
    size: usize,
    /// Why the frame at each place must be dropped; `None`: it must arrive.
    faults: Vec<Option<Reason>>,
}

impl Trace {
    /// A trace of frames of `size` bytes for `flows` destinations of `routes`, `bad` of thousand of
    /// them bad.
    pub(crate) fn generate(routes: &Routes, flows: usize, size: usize, bad: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let flows: Vec<(u32, u16)> =
            (0..flows).map(|_| (routes.some_address(&mut rng), 1024 + rng.below(60_000) as u16)).collect();
        let frames = FRAMES.max(flows.len());
        let (mut bytes, mut faults) = (Vec::with_capacity(frames * size), Vec::with_capacity(frames));
        let mut wrong = 0;
        for at in 0..frames {
            // Spread evenly, in turn of each kind.
            let fault = ((at + 1) * bad / 1000 > at * bad / 1000).then(|| {
                wrong += 1;
                Fault::ALL[wrong % Fault::ALL.len()]
            });
            let (to, port) = flows[at % flows.len()];
            bytes.extend(frame(at, to, port, size, fault, &mut rng));
            faults.push(fault.map(Fault::reason));
        }
        Self { bytes, size, faults }
    }

    /// Bytes of each frame.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.faults.len()
    }

    /// The frame at a place.
    #[inline]
    pub(crate) fn frame(&self, at: usize) -> &[u8] {
        &self.bytes[at * self.size..(at + 1) * self.size]
    }

    /// Why it must be dropped, if it must.
    pub(crate) fn fault(&self, at: usize) -> Option<Reason> {
        self.faults[at]
    }

    /// Compares a frame that arrived with what was sent; its place in the trace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, arrived: &[u8]) -> Result<usize, String> {
        let Some(place) = arrived.get(HEADERS..HEADERS + 4).filter(|_| arrived.len() == self.size) else {
            return Err(format!("a frame of {} bytes arrived; all have {}", arrived.len(), self.size));
        };
        let at = u32::from_le_bytes([place[0], place[1], place[2], place[3]]) as usize;
        if at >= self.len() {
            return Err(format!("a frame says that it is number {at} of {}", self.len()));
        }
        if let Some(reason) = self.fault(at) {
            return Err(format!("frame {at} arrived, but should have been dropped: {}", reason.name()));
        }
        let sent = self.frame(at);
        let (ip, was) = (&arrived[ETHERNET..], &sent[ETHERNET..]);
        // TTL and checksum change, and nothing else of the packet.
        let same = ip[..8] == was[..8] && ip[9] == was[9] && ip[12..] == was[12..];
        let moved = arrived[6..12] == OWN_MAC && arrived[..6] != sent[..6] && arrived[12..14] == sent[12..14];
        if !same || !moved || ip[8] != TTL - 1 || !checksum_holds(&ip[..IPV4]) {
            return Err(format!("frame {at} arrived spoiled: sent {sent:02x?}, arrived {arrived:02x?}"));
        }
        Ok(at)
    }
}

/// The frame at place `at`.
fn frame(at: usize, to: u32, port: u16, size: usize, fault: Option<Fault>, rng: &mut Rng) -> Vec<u8> {
    let mut to = to.to_be_bytes();
    let mut ttl = TTL;
    match fault {
        Some(Fault::Destination) => to = [UNROUTED, 18, at as u8, 1],
        Some(Fault::Ttl) => ttl = 1,
        _ => {}
    }
    let mut payload: Vec<u8> = (at as u32).to_le_bytes().to_vec();
    payload.extend((payload.len()..size - HEADERS).map(|_| rng.draw() as u8));
    let builder =
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]).ipv4([172, 16, 0, 1], to, ttl).udp(port, 9);
    let mut frame = Vec::with_capacity(size);
    // A vector takes everything, and the payload is far below the limit of UDP.
    let _ = builder.write(&mut frame, &payload);
    let header = &mut frame[ETHERNET..];
    match fault {
        Some(Fault::Version) => header[0] = 0x65,
        Some(Fault::HeaderLength) => header[0] = 0x43,
        Some(Fault::TotalLength) => header[2..4].copy_from_slice(&2000u16.to_be_bytes()),
        Some(Fault::Checksum) => header[10] ^= 0x40,
        Some(Fault::Ttl | Fault::Destination) | None => {}
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::forward::args::{LEAST as LEAST_BYTES, MOST as MOST_BYTES};
    use crate::experiments::forward::child::packet::forward;

    const LEAST: usize = LEAST_BYTES as usize;
    const MOST: usize = MOST_BYTES as usize;

    #[test]
    fn every_frame_of_a_trace_is_forwarded_or_dropped_for_its_reason() {
        let routes = Routes::generate(2000, 1);
        for (flows, size, bad) in [(1, LEAST, 0), (1, LEAST, 500), (3000, 200, 37), (7, MOST, 1000)] {
            let trace = Trace::generate(&routes, flows, size, bad, 5);
            assert_eq!(trace.len(), flows.max(FRAMES));
            for at in 0..trace.len() {
                let mut frame = trace.frame(at).to_vec();
                assert_eq!(frame.len(), size);
                assert_eq!(forward(&mut frame, &routes).err(), trace.fault(at));
                if trace.fault(at).is_none() {
                    assert_eq!(trace.check(&frame), Ok(at));
                }
            }
            let faults = (0..trace.len()).filter(|&at| trace.fault(at).is_some()).count();
            assert_eq!(faults, trace.len() * bad / 1000);
        }
    }

    #[test]
    fn what_is_wrong_with_an_arrived_frame_is_told() {
        let routes = Routes::generate(100, 1);
        let trace = Trace::generate(&routes, 1, LEAST, 100, 5);
        let at = (0..trace.len()).find(|&at| trace.fault(at).is_none()).unwrap();
        let mut good = trace.frame(at).to_vec();
        forward(&mut good, &routes).unwrap();
        for byte in 0..LEAST {
            let mut spoiled = good.clone();
            spoiled[byte] ^= 0x80;
            // The first six bytes name the neighbour, of which any will do.
            assert_eq!(trace.check(&spoiled).is_ok(), byte < 6, "byte {byte}");
        }
        assert!(trace.check(trace.frame(at)).is_err(), "not forwarded");
        assert!(trace.check(&good[..LEAST - 1]).is_err());
        let bad = (0..trace.len()).find(|&at| trace.fault(at).is_some()).unwrap();
        assert!(trace.check(trace.frame(bad)).unwrap_err().contains("should have been dropped"));
    }
}
