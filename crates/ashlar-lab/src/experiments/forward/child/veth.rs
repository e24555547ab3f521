//! Forwarding between two network namespaces: generator, forwarder and sink in turn, on one CPU.
//!
//! The generator fills the wire with a burst, the forwarder empties it, the sink takes what arrived
//! and compares it; then the next burst. Only the forwarder's part is measured. So the forwarder
//! always has work waiting, as in the mail, where the generator sent seven times what was
//! forwarded, and neither side's cost or the scheduler's whim is in the figure. What the kernel
//! does to deliver a sent frame to the other namespace is in it, as the driver's transmission was
//! in the mail's.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::experiments::forward::child::forwarder::{self, Forwarder, Wire};
use crate::experiments::forward::child::network::Network;
use crate::experiments::forward::child::parts::Parts;
use crate::experiments::forward::child::pool::Pool;
use crate::experiments::forward::child::skb::Skb;
use crate::experiments::forward::child::sockets::{Batch, PacketSocket};
use crate::experiments::forward::child::traffic::Trace;
use crate::experiments::forward::plan::tally::Tally;

/// Most frames of a burst: less than the kernel's queue between devices takes
/// (net.core.netdev_max_backlog is 1000).
const BURST: usize = 512;
/// How long frames may be under way.
const PATIENCE: Duration = Duration::from_secs(10);

/// The forwarder's two sides.
#[derive(Debug)]
pub(crate) struct VethWire {
    left: PacketSocket,
    right: PacketSocket,
    size: usize,
    batch: Batch,
}

impl Wire for VethWire {
    fn receive(&mut self, into: &mut [Skb]) -> Result<usize, String> {
        let size = self.size;
        let mut lengths = [0; forwarder::BUDGET];
        // SAFETY: every packet was made with room for frames of `size` bytes, and is borrowed here
        // alone.
        let came = unsafe {
            self.left
                .receive(&mut self.batch, into.iter().map(|skb| (skb.room(), size)), |at, bytes| lengths[at] = bytes)
        };
        let came = came.map_err(|error| format!("receiving: {error}"))?;
        for (skb, bytes) in into.iter_mut().zip(&lengths[..came]) {
            // SAFETY: the kernel wrote so many bytes to the room.
            unsafe { skb.set_length(*bytes) };
        }
        Ok(came)
    }

    fn send(&mut self, packets: &mut [Skb]) -> Result<(), String> {
        let mut left = packets;
        let start = Instant::now();
        while !left.is_empty() {
            let frames = left.iter_mut().map(|skb| {
                let frame = skb.frame();
                (frame.as_mut_ptr(), frame.len())
            });
            // SAFETY: the frames are those of live packets, borrowed for this call.
            let sent = unsafe { self.right.send(&mut self.batch, frames) };
            let sent = sent.map_err(|error| format!("sending: {error}"))?;
            if sent == 0 && start.elapsed() > PATIENCE {
                return Err("sending: the kernel takes no more frames".to_owned());
            }
            left = &mut left[sent..];
        }
        Ok(())
    }
}

/// Generator, forwarder and sink.
#[derive(Debug)]
pub(crate) struct Veth<P> {
    forwarder: Forwarder<P, VethWire>,
    generator: PacketSocket,
    sink: PacketSocket,
    trace: Arc<Trace>,
    batch: Batch,
    /// Frames of a burst: fewer than the sockets have room for.
    burst: usize,
    /// Where the sink puts what arrives.
    arrived: Vec<Vec<u8>>,
}

impl<P: Pool> Veth<P> {
    /// # Errors
    /// The sockets have no room for frames of this size.
    pub(crate) fn new(network: Network, parts: Parts<P>) -> Result<Self, String> {
        let trace = Arc::clone(&parts.trace);
        let Network { generator, left, right, sink } = network;
        let size = trace.size();
        let room = left.room(size).and_then(|left| Ok(left.min(sink.room(size)?)));
        let burst = room.map_err(|error| format!("--veth: room of the sockets: {error}"))?.min(BURST);
        if burst == 0 {
            return Err("--veth: the sockets have no room for a frame; expected a larger net.core.rmem_max".to_owned());
        }
        let forwarder = parts.forwarder(|_| VethWire { left, right, size, batch: Batch::new() });
        // One byte more than a frame has, to see that nothing longer arrives.
        let arrived = vec![vec![0; size + 1]; burst];
        Ok(Self { forwarder, generator, sink, trace, batch: Batch::new(), burst, arrived })
    }

    /// Forwards `packets`; nanoseconds of the forwarder alone.
    pub(crate) fn run(&mut self, packets: usize) -> Result<(u64, Tally), String> {
        self.forwarder.tally = Tally::default();
        let (mut next, mut nanoseconds) = (0, 0);
        let mut left = packets;
        while left > 0 {
            let burst = left.min(self.burst);
            self.generate(next, burst)?;
            let before = self.forwarder.tally.forwarded;
            let start = Instant::now();
            let mut came = 0;
            while came < burst {
                came += self.forwarder.poll()?;
                if start.elapsed() > PATIENCE {
                    return Err(format!("only {came} of {burst} frames crossed the first pair"));
                }
            }
            self.forwarder.drain();
            nanoseconds += start.elapsed().as_nanos() as u64;
            self.absorb(next, burst, (self.forwarder.tally.forwarded - before) as usize)?;
            next = (next + burst) % self.trace.len();
            left -= burst;
        }
        Ok((nanoseconds, self.forwarder.tally))
    }

    /// Sends `burst` frames of the trace, from `next` on.
    fn generate(&mut self, next: usize, burst: usize) -> Result<(), String> {
        let mut sent = 0;
        let start = Instant::now();
        while sent < burst {
            let frames = (sent..burst).map(|at| {
                let frame = self.trace.frame((next + at) % self.trace.len());
                (frame.as_ptr().cast_mut(), frame.len())
            });
            // SAFETY: the frames lie in the trace; the kernel only reads what is sent.
            let taken = unsafe { self.generator.send(&mut self.batch, frames) };
            sent += taken.map_err(|error| format!("the generator: {error}"))?;
            if start.elapsed() > PATIENCE {
                return Err(format!("the generator: the kernel took {sent} of {burst} frames"));
            }
        }
        Ok(())
    }

    /// Takes what arrived of the burst that began at `next`: just the `forwarded` good ones, in
    /// order.
    fn absorb(&mut self, next: usize, burst: usize, forwarded: usize) -> Result<(), String> {
        let mut lengths = vec![0; self.arrived.len()];
        let mut came = 0;
        let start = Instant::now();
        while came < forwarded {
            let buffers = self.arrived[came..].iter_mut().map(|buffer| (buffer.as_mut_ptr(), buffer.len()));
            // SAFETY: the buffers are vectors of these lengths, borrowed for this call.
            let more = unsafe { self.sink.receive(&mut self.batch, buffers, |at, bytes| lengths[came + at] = bytes) };
            came += more.map_err(|error| format!("the sink: {error}"))?;
            if start.elapsed() > PATIENCE {
                return Err(format!("only {came} of {forwarded} frames crossed the second pair"));
            }
        }
        let places = (0..burst).map(|at| (next + at) % self.trace.len());
        let mut due = places.filter(|&place| self.trace.fault(place).is_none());
        for (buffer, &bytes) in self.arrived[..came].iter().zip(&lengths) {
            let place = self.trace.check(&buffer[..bytes])?;
            if due.next() != Some(place) {
                return Err(format!("frame {place} arrived where another was due"));
            }
        }
        match due.next() {
            Some(place) => Err(format!("frame {place} did not arrive")),
            None => Ok(()),
        }
    }

    /// Gives everything back.
    pub(crate) fn end(self) -> Result<(), String> {
        self.forwarder.end()
    }
}
