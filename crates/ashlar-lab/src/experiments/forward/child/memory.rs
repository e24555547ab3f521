//! The wire in memory: frames of the trace come in as by DMA, and what goes out is looked at or
//! only counted.

use std::sync::Arc;

use crate::experiments::forward::child::forwarder::Wire;
use crate::experiments::forward::child::skb::Skb;
use crate::experiments::forward::child::traffic::Trace;

/// Both ports.
#[derive(Debug)]
pub(crate) struct MemoryWire {
    trace: Arc<Trace>,
    next: usize,
    /// Frames that are still to come.
    pub(crate) left: usize,
    /// Whether what goes out is compared with what came in.
    pub(crate) checks: bool,
    /// Place of the next frame that must go out.
    due: usize,
}

impl MemoryWire {
    pub(crate) fn new(trace: Arc<Trace>) -> Self {
        Self { trace, next: 0, left: 0, checks: false, due: 0 }
    }

    /// `packets` frames come, from the start of the trace on.
    pub(crate) fn start(&mut self, packets: usize, checks: bool) {
        *self = Self { left: packets, checks, ..Self::new(Arc::clone(&self.trace)) };
    }
}

impl Wire for MemoryWire {
    #[inline]
    fn receive(&mut self, into: &mut [Skb]) -> Result<usize, String> {
        let count = into.len().min(self.left);
        for skb in &mut into[..count] {
            // SAFETY: the packets have room for frames of the trace, all of which have its size.
            unsafe { skb.fill(self.trace.frame(self.next)) };
            self.next = if self.next + 1 == self.trace.len() { 0 } else { self.next + 1 };
        }
        self.left -= count;
        Ok(count)
    }

    #[inline]
    fn send(&mut self, packets: &mut [Skb]) -> Result<(), String> {
        if !self.checks {
            return Ok(());
        }
        for skb in packets {
            let at = self.trace.check(skb.frame())?;
            // In order, and only those that must be dropped are missing.
            while self.trace.fault(self.due).is_some() {
                self.due = (self.due + 1) % self.trace.len();
            }
            if at != self.due {
                return Err(format!("frame {at} went out where {} was due", self.due));
            }
            self.due = (self.due + 1) % self.trace.len();
        }
        Ok(())
    }
}
