//! The forwarder: polls one side, forwards, sends to the other, and frees what was sent.
//!
//! A poll is that of a driver under NAPI with a budget of 64: clean the TX ring, fill the RX ring
//! with empty packets, receive, forward or drop each, send. The same loop runs over memory and over
//! packet sockets; which, is a [`Wire`].

use std::sync::Arc;

use crate::experiments::forward::child::completions::Completions;
use crate::experiments::forward::child::packet;
use crate::experiments::forward::child::pool::{Others, Pool};
use crate::experiments::forward::child::routes::Routes;
use crate::experiments::forward::child::skb::{self, Skb};
use crate::experiments::forward::plan::tally::Tally;

/// Packets of one poll: the kernel's NAPI_POLL_WEIGHT.
pub(crate) const BUDGET: usize = 64;

/// Two ports.
pub(crate) trait Wire {
    /// Receives up to as many frames as there are packets, from the first on; how many.
    ///
    /// # Errors
    /// The port failed.
    fn receive(&mut self, into: &mut [Skb]) -> Result<usize, String>;

    /// Sends all frames.
    ///
    /// # Errors
    /// The port failed.
    fn send(&mut self, packets: &mut [Skb]) -> Result<(), String>;
}

/// A forwarder between two ports.
#[derive(Debug)]
pub(crate) struct Forwarder<P, W> {
    pool: Arc<P>,
    pub(crate) wire: W,
    routes: Arc<Routes>,
    size: usize,
    /// Empty packets that wait for a frame.
    rx: Vec<Skb>,
    tx: Vec<Skb>,
    completions: Completions,
    others: Others,
    pub(crate) tally: Tally,
}

impl<P: Pool, W: Wire> Forwarder<P, W> {
    /// For frames of up to `size` bytes.
    pub(crate) fn new(
        pool: Arc<P>,
        wire: W,
        routes: Arc<Routes>,
        size: usize,
        completions: Completions,
        others: Others,
    ) -> Self {
        let (rx, tx) = (Vec::with_capacity(BUDGET), Vec::with_capacity(BUDGET));
        Self { pool, wire, routes, size, rx, tx, completions, others, tally: Tally::default() }
    }

    /// One poll; how many packets came.
    ///
    /// # Errors
    /// A port failed, or memory has ended.
    pub(crate) fn poll(&mut self) -> Result<usize, String> {
        self.completions.clean(&*self.pool);
        self.others.turn(&*self.pool)?;
        // A cleaner on another CPU may be behind: what it has no room for stays on the wire.
        let budget = self.completions.room().min(BUDGET);
        while self.rx.len() < budget {
            let skb = Skb::new(&*self.pool, self.size);
            self.rx.push(skb.ok_or_else(|| "memory for a packet is missing".to_owned())?);
        }
        let came = self.wire.receive(&mut self.rx[..budget])?;
        self.tally.received += came as u64;
        for mut skb in self.rx.drain(..came) {
            match packet::forward(skb.frame(), &self.routes) {
                Ok(()) => self.tx.push(skb),
                Err(reason) => {
                    self.tally.dropped[reason as usize] += 1;
                    skb::free(&*self.pool, skb);
                }
            }
        }
        if !self.tx.is_empty() {
            self.wire.send(&mut self.tx)?;
            self.tally.forwarded += self.tx.len() as u64;
            for skb in self.tx.drain(..) {
                self.completions.push(skb);
            }
        }
        Ok(came)
    }

    /// Returns when all packets that were sent are free.
    pub(crate) fn drain(&mut self) {
        self.completions.drain(&*self.pool);
    }

    /// Frees everything: sent and waiting packets, and the objects of others.
    ///
    /// # Errors
    /// Something is still in use, where the allocator can tell.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.completions.end(&*self.pool)?;
        for skb in self.rx.drain(..).chain(self.tx.drain(..)) {
            skb::free(&*self.pool, skb);
        }
        self.others.clear(&*self.pool);
        match self.pool.live() {
            Some(live @ 1..) => Err(format!("{live} objects are still in use when all should be free")),
            _ => Ok(()),
        }
    }
}
