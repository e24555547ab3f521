//! Senders and receivers as threads of one process: what one allocates the other frees.
//!
//! Each receiver has a bounded queue, which all senders of its group fill, as each receiver of
//! hackbench has a socket: the standard library's channel of bounded length. It holds addresses,
//! allocates nothing for a message, and lets its users sleep when it is full or empty.

use core::time::Duration;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Barrier, PoisonError, RwLock};
use std::time::Instant;

use crate::experiments::hackbench::child::message::{Ledger, Message, Tag, queue_length};
use crate::experiments::hackbench::plan::Work;
use crate::systems::heap::Heap;

/// Passes all messages; the time from when all threads were ready until all were gone.
pub(crate) fn run<H: Heap>(heap: &H, work: &Work) -> Result<Duration, String> {
    let tasks = work.groups * work.fds * 2;
    let ready = Barrier::new(tasks + 1);
    let length = queue_length(work.sizes.iter().copied().max().unwrap_or(0));
    let first_error = RwLock::new(None);
    let failed = |error: String| {
        first_error.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    let start = std::thread::scope(|scope| {
        for _ in 0..work.groups {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..work.fds).map(|_| sync_channel(length)).unzip();
            for queue in receivers {
                scope.spawn(|| {
                    heap.thread_start();
                    ready.wait();
                    receive(heap, work, queue).unwrap_or_else(failed);
                });
            }
            for from in 0..work.fds {
                let (senders, ready) = (senders.clone(), &ready);
                scope.spawn(move || {
                    heap.thread_start();
                    ready.wait();
                    send(heap, work, from, &senders).unwrap_or_else(failed);
                });
            }
        }
        ready.wait();
        Instant::now()
    });
    let elapsed = start.elapsed();
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(elapsed),
    }
}

/// One message to each receiver, `loops` times.
fn send<H: Heap>(heap: &H, work: &Work, from: usize, queues: &[SyncSender<Message>]) -> Result<(), String> {
    let mut buffer = vec![0; work.sizes.iter().copied().max().unwrap_or(0)];
    for number in 0..work.loops {
        let tag = Tag { from, number };
        let size = number % work.sizes.len();
        let bytes = &mut buffer[..work.sizes[size]];
        tag.fill(bytes);
        for queue in queues {
            let message = Message::new(heap, size, tag, bytes).map_err(|_| "memory ended".to_owned())?;
            if let Err(back) = queue.send(message) {
                // Its receiver has said why it is gone.
                back.0.take(heap, &work.sizes, &mut vec![0; work.sizes[size]]);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// All messages of all senders of the group.
fn receive<H: Heap>(heap: &H, work: &Work, queue: Receiver<Message>) -> Result<(), String> {
    let mut buffer = vec![0; work.sizes.iter().copied().max().unwrap_or(0)];
    let mut ledger = Ledger::new(work.fds);
    let mut outcome = Ok(());
    // Ends when the last sender is gone. What comes after an error is only freed.
    for message in queue {
        let tag = message.take(heap, &work.sizes, &mut buffer);
        outcome = outcome.and_then(|()| ledger.enter(tag));
    }
    outcome?;
    if ledger.is_complete(work.loops) { Ok(()) } else { Err("messages are missing".to_owned()) }
}

#[cfg(test)]
mod tests {
    use crate::experiments::hackbench::child::message;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::systems::heap::Kind;

    /// The C library's malloc; counts, and can end.
    struct Counting {
        sizes: Vec<usize>,
        allocs: AtomicUsize,
        frees: AtomicUsize,
        /// Allocations that there is memory for.
        last: usize,
    }

    impl Counting {
        fn for_sizes(sizes: &[usize]) -> Self {
            Self::open(&message::kinds(sizes)).unwrap()
        }
    }

    impl Heap for Counting {
        fn open(kinds: &[Kind]) -> Result<Self, String> {
            let sizes = kinds.iter().map(|kind| kind.size).collect();
            Ok(Self { sizes, allocs: AtomicUsize::new(0), frees: AtomicUsize::new(0), last: usize::MAX })
        }

        fn alloc(&self, kind: usize) -> *mut u8 {
            let at = self.allocs.fetch_add(1, Ordering::Relaxed);
            if at >= self.last {
                self.allocs.fetch_sub(1, Ordering::Relaxed);
                return core::ptr::null_mut();
            }
            // SAFETY: any size may be asked for.
            unsafe { libc::malloc(self.sizes[kind]) }.cast()
        }

        unsafe fn free(&self, _kind: usize, object: *mut u8) {
            self.frees.fetch_add(1, Ordering::Relaxed);
            // SAFETY: by the contract.
            unsafe { libc::free(object.cast()) };
        }
    }

    fn work(groups: usize, loops: usize, fds: usize, sizes: &[usize]) -> Work {
        Work { groups, loops, fds, sizes: sizes.to_vec(), processes: false, boot: 0.0 }
    }

    #[test]
    fn every_message_arrives_once_and_all_is_freed() {
        for (groups, loops, fds, sizes) in [(1, 1, 1, &[1][..]), (2, 700, 3, &[100]), (1, 50, 8, &[8, 300, 4000])] {
            let work = work(groups, loops, fds, sizes);
            let heap = Counting::for_sizes(sizes);
            run(&heap, &work).unwrap();
            assert_eq!(heap.allocs.load(Ordering::Relaxed), 2 * work.messages());
            assert_eq!(heap.frees.load(Ordering::Relaxed), 2 * work.messages());
        }
    }

    #[test]
    fn memory_that_ends_in_the_middle_ends_the_run_and_nothing_leaks() {
        let work = work(2, 100, 3, &[100]);
        let heap = Counting { last: 1001, ..Counting::for_sizes(&[100]) };
        assert_eq!(run(&heap, &work).unwrap_err(), "memory ended");
        assert_eq!(heap.frees.load(Ordering::Relaxed), 1001);
    }
}
