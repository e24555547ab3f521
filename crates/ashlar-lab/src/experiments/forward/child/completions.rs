//! The ring of sent packets, and who frees them: the driver's cleaning of its TX ring.
//!
//! On the same CPU the forwarder cleans at the start of each poll what the previous polls sent, as
//! a driver under NAPI does. On another CPU a thread of its own does nothing else: then every free
//! is a remote one. Either way at most `bulk` heads go back in one call, or each by itself.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::experiments::forward::child::pool::Pool;
use crate::experiments::forward::child::skb::{self, Skb};

/// Descriptors of the ring: the default of Intel's drivers.
pub(crate) const RING: usize = 512;

/// How sent packets are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Free {
    /// Each head by itself.
    OneByOne,
    /// At most so many heads together.
    Bulk(usize),
}

impl Free {
    /// Frees `count` packets of `next`.
    #[inline]
    fn free<P: Pool>(self, pool: &P, count: usize, mut next: impl FnMut() -> Option<Skb>) {
        match self {
            Self::OneByOne => core::iter::from_fn(next).take(count).for_each(|skb| skb::free(pool, skb)),
            Self::Bulk(most) => {
                let mut left = count;
                while left > 0 {
                    let part = left.min(most);
                    skb::free_bulk(pool, core::iter::from_fn(&mut next).take(part));
                    left -= part;
                }
            }
        }
    }
}

/// The ring and its cleaner.
#[derive(Debug)]
pub(crate) enum Completions {
    /// The forwarder itself.
    Same { ring: VecDeque<Skb>, free: Free },
    /// A thread on another CPU.
    Other { ring: Producer<Skb>, sent: u64, freed: Arc<AtomicU64>, cleaner: JoinHandle<()>, patience: u32 },
}

impl Completions {
    pub(crate) fn same(free: Free) -> Self {
        Self::Same { ring: VecDeque::with_capacity(RING), free }
    }

    /// Starts a thread that frees; `pin` is called on it first. `patience` is how often either side
    /// looks before it yields to other threads: 0 where they share a CPU.
    pub(crate) fn other<P: Pool>(
        pool: &Arc<P>,
        free: Free,
        patience: u32,
        pin: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (ring, consumer) = RingBuffer::new(RING);
        let freed = Arc::new(AtomicU64::new(0));
        let (pool, count) = (Arc::clone(pool), Arc::clone(&freed));
        let cleaner = std::thread::spawn(move || {
            pin();
            pool.thread_start();
            clean(&*pool, consumer, free, &count, patience);
        });
        Self::Other { ring, sent: 0, freed, cleaner, patience }
    }

    /// Frees what was sent before this poll.
    #[inline]
    pub(crate) fn clean<P: Pool>(&mut self, pool: &P) {
        if let Self::Same { ring, free } = self {
            free.free(pool, ring.len(), || ring.pop_front());
        }
    }

    /// Packets that may be pushed before the ring is full. The forwarder receives no more than
    /// this.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Same { ring, .. } => RING - ring.len(),
            Self::Other { ring, .. } => ring.slots(),
        }
    }

    /// Hands a sent packet over. Waits while the ring is full, which a caller that checks
    /// [`room`](Self::room) never meets.
    #[inline]
    pub(crate) fn push(&mut self, skb: Skb) {
        match self {
            Self::Same { ring, .. } => ring.push_back(skb),
            Self::Other { ring, sent, patience, .. } => {
                *sent += 1;
                let (mut skb, mut waiting) = (skb, Waiting::new(*patience));
                while let Err(PushError::Full(back)) = ring.push(skb) {
                    skb = back;
                    waiting.pause();
                }
            }
        }
    }

    /// Returns when everything that was handed over is free.
    pub(crate) fn drain<P: Pool>(&mut self, pool: &P) {
        self.clean(pool);
        if let Self::Other { sent, freed, patience, .. } = self {
            let mut waiting = Waiting::new(*patience);
            while freed.load(Ordering::Acquire) < *sent {
                waiting.pause();
            }
        }
    }

    /// Ends the cleaner. What is left is freed first.
    ///
    /// # Errors
    /// The thread panicked.
    pub(crate) fn end<P: Pool>(mut self, pool: &P) -> Result<(), String> {
        self.drain(pool);
        match self {
            Self::Same { .. } => Ok(()),
            Self::Other { ring, cleaner, .. } => {
                drop(ring);
                cleaner.join().map_err(|_| "the thread that frees has panicked".to_owned())
            }
        }
    }
}

/// Polls the other side: at first without a pause, then after other threads that are ready to
/// run.
struct Waiting(u32);

impl Waiting {
    fn new(patience: u32) -> Self {
        Self(patience)
    }

    fn pause(&mut self) {
        if self.0 == 0 {
            std::thread::yield_now();
        } else {
            self.0 -= 1;
            core::hint::spin_loop();
        }
    }
}

/// The cleaner's loop: ends when the ring is empty and will stay so.
fn clean<P: Pool>(pool: &P, mut ring: Consumer<Skb>, free: Free, freed: &AtomicU64, patience: u32) {
    let mut waiting = Waiting::new(patience);
    loop {
        // Looked at before the ring: what was pushed before the other side went is seen below.
        let last = ring.is_abandoned();
        let count = ring.slots();
        if count > 0 {
            free.free(pool, count, || ring.pop().ok());
            freed.fetch_add(count as u64, Ordering::Release);
            waiting = Waiting::new(patience);
        } else if last {
            return;
        } else {
            waiting.pause();
        }
    }
}
