//! Workloads of several threads. What each thread allocates follows from the seed alone, and
//! checksums are sums, so that the order in which threads meet changes nothing.

use core::mem::replace;
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Scale;
use crate::block::Block;
use crate::random::Rng;
use crate::single::free_all;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sum of what `threads` threads return.
pub(crate) fn together(threads: usize, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads as u64).map(|me| scope.spawn(move || work(me))).collect();
        running.into_iter().fold(0, |sum: u64, thread| sum.wrapping_add(thread.join().unwrap_or(0)))
    })
}

/// A server: each thread replaces blocks of 8 to 1000 bytes at random among 2000 it was handed,
/// then hands all to a new thread and ends.
pub(crate) fn server(threads: usize, scale: Scale) -> u64 {
    const SLOTS: usize = 2000;
    const GENERATIONS: usize = 12;
    fn generation(mut slots: Vec<Block>, mut rng: Rng, left: usize, steps: usize, sum: u64, done: Sender<u64>) {
        let mut sum = sum;
        for step in 0..steps {
            let new = Block::new(8 + rng.below(993), step as u64);
            sum = sum.wrapping_add(replace(&mut slots[rng.below(SLOTS)], new).free());
        }
        if left > 1 {
            thread::spawn(move || generation(slots, rng, left - 1, steps, sum, done));
        } else {
            // The receiver waits for all of them, so it is there.
            let _ = done.send(free_all(slots, sum));
        }
    }
    let steps = scale.steps(9_000_000 / threads / GENERATIONS);
    let (done, sums) = channel();
    for me in 0..threads as u64 {
        let mut rng = Rng::new(20 + me);
        let slots: Vec<Block> = (0..SLOTS as u64).map(|tag| Block::new(8 + rng.below(993), tag)).collect();
        let done = done.clone();
        thread::spawn(move || generation(slots, rng, GENERATIONS, steps, 0, done));
    }
    drop(done);
    sums.iter().fold(0, u64::wrapping_add)
}

/// A bounded queue of batches.
struct Queue {
    batches: Mutex<(VecDeque<Vec<Block>>, usize)>,
    limit: usize,
    changed: [Condvar; 2],
}

impl Queue {
    const ROOM: usize = 0;
    const WORK: usize = 1;

    fn new(limit: usize, producers: usize) -> Self {
        Self {
            batches: Mutex::new((VecDeque::with_capacity(limit), producers)),
            limit,
            changed: [Condvar::new(), Condvar::new()],
        }
    }

    fn put(&self, batch: Vec<Block>) {
        let full = |state: &mut (VecDeque<_>, usize)| state.0.len() == self.limit;
        let waited = self.changed[Self::ROOM].wait_while(lock(&self.batches), full);
        waited.unwrap_or_else(PoisonError::into_inner).0.push_back(batch);
        self.changed[Self::WORK].notify_one();
    }

    fn producer_ends(&self) {
        lock(&self.batches).1 -= 1;
        self.changed[Self::WORK].notify_all();
    }

    /// The next batch, or none when all producers have ended.
    fn take(&self) -> Option<Vec<Block>> {
        let idle = |state: &mut (VecDeque<Vec<Block>>, usize)| state.0.is_empty() && state.1 > 0;
        let waited = self.changed[Self::WORK].wait_while(lock(&self.batches), idle);
        let batch = waited.unwrap_or_else(PoisonError::into_inner).0.pop_front();
        self.changed[Self::ROOM].notify_one();
        batch
    }
}

/// `pairs` threads allocate what `pairs` others free, in batches through a bounded queue.
fn handed_on(pairs: usize, batches: usize, batch: usize, limit: usize, size: impl Fn(&mut Rng) -> usize + Sync) -> u64 {
    let queue = Queue::new(limit, pairs);
    together(2 * pairs, |me| {
        if me >= pairs as u64 {
            let mut sum = 0u64;
            while let Some(blocks) = queue.take() {
                sum = free_all(blocks, sum);
            }
            return sum;
        }
        let mut rng = Rng::new(30 + me);
        for number in 0..batches {
            let tag = (number * pairs) as u64 + me;
            queue.put((0..batch).map(|_| Block::new(size(&mut rng), tag)).collect());
        }
        queue.producer_ends();
        0
    })
}

/// One thread allocates 16 to 1024 bytes at a time, the other frees.
pub(crate) fn handover(scale: Scale) -> u64 {
    handed_on(1, scale.steps(14_000), 128, 64, |rng| rng.skewed(16, 1023))
}

/// Two threads allocate 64 bytes at a time, two others free.
pub(crate) fn handover_small(scale: Scale) -> u64 {
    handed_on(2, scale.steps(3000), 1024, 32, |_| 64)
}

/// Parcels of blocks on the way to a thread.
type Mail = Mutex<Vec<Vec<Block>>>;

/// Most parcels on the way to one thread. A thread whose other one does not run, which is a matter
/// of the system's scheduler, would otherwise fill memory that says nothing of the allocator.
const MOST_PARCELS: usize = 16;

/// Sends a parcel; what comes back is the sender's to free.
fn send(to: &Mail, parcel: Vec<Block>) -> Vec<Block> {
    let mut mail = lock(to);
    if mail.len() >= MOST_PARCELS {
        return parcel;
    }
    mail.push(parcel);
    Vec::new()
}

/// Frees what no thread fetched.
fn free_rest(mail: [Mail; 2], sum: u64) -> u64 {
    let left = mail.into_iter().flat_map(|mail| mail.into_inner().unwrap_or_else(PoisonError::into_inner));
    free_all(left.flatten(), sum)
}

/// Two threads with 1500 blocks each of 16 to 16000 bytes; every tenth block is sent to
/// the other thread, which frees it, unless [`MOST_PARCELS`] blocks wait there already.
pub(crate) fn crossing(scale: Scale) -> u64 {
    const SLOTS: usize = 1500;
    let mail: [Mail; 2] = Default::default();
    let rounds = scale.steps(400);
    let sum = together(2, |me| {
        let mut rng = Rng::new(40 + me);
        let mut slots: Vec<Option<Block>> = (0..SLOTS).map(|_| None).collect();
        let (mine, theirs) = (&mail[me as usize], &mail[1 - me as usize]);
        let mut sum = 0u64;
        for round in 0..rounds {
            let mut parcel = Vec::new();
            for step in 0..1000 {
                let new = Block::new(rng.falling(16, 16_000), (round * 1000 + step) as u64);
                match slots[rng.below(SLOTS)].replace(new) {
                    Some(old) if step % 10 == 0 => parcel.push(old),
                    Some(old) => sum = sum.wrapping_add(old.free()),
                    None => {}
                }
            }
            sum = free_all(send(theirs, parcel), sum);
            let arrived = core::mem::take(&mut *lock(mine));
            sum = free_all(arrived.into_iter().flatten(), sum);
        }
        free_all(slots.into_iter().flatten(), sum)
    });
    free_rest(mail, sum)
}

/// Thirty rounds of four threads that come and go; each leaves blocks in a shared table and takes
/// out those of others.
pub(crate) fn churn(scale: Scale) -> u64 {
    const PLACES: usize = 1000;
    let table: Arc<Vec<Mutex<Option<Block>>>> = Arc::new((0..PLACES).map(|_| Mutex::new(None)).collect());
    let steps = scale.steps(25_000);
    let mut sum = 0u64;
    for round in 0..30 {
        sum = sum.wrapping_add(together(4, |me| {
            let mut rng = Rng::new(50 + round * 4 + me);
            let mut own: VecDeque<Block> = VecDeque::new();
            let mut sum = 0u64;
            for step in 0..steps {
                // A giant now and then.
                let size = if rng.below(10_000) == 0 { 500_000 } else { rng.skewed(16, 2047) };
                own.push_back(Block::new(size, step as u64));
                if rng.below(8) == 0
                    && let Some(block) = own.pop_front()
                {
                    let other = lock(&table[rng.below(PLACES)]).replace(block);
                    sum = sum.wrapping_add(other.map_or(0, Block::free));
                }
                if own.len() > 500 {
                    let keep = rng.below(400);
                    sum = free_all(own.drain(keep..), sum);
                }
            }
            free_all(own, sum)
        }));
    }
    for place in table.iter() {
        sum = sum.wrapping_add(lock(place).take().map_or(0, Block::free));
    }
    sum
}

/// Two threads make, write and free one small block at a time: it hurts if their blocks share a
/// cache line.
pub(crate) fn sharing_active(scale: Scale) -> u64 {
    let steps = scale.steps(500_000);
    together(2, |me| write_often(None, me, steps, 1000))
}

/// The same with blocks that start as neighbours, handed out by the main thread and freed by the
/// two.
pub(crate) fn sharing_passive(scale: Scale) -> u64 {
    let steps = scale.steps(6000);
    let given = [0, 1].map(|tag| Mutex::new(Some(Block::new(8, tag))));
    together(2, |me| {
        let start = lock(&given[me as usize]).take();
        write_often(start, me, steps, 100_000)
    })
}

fn write_often(start: Option<Block>, me: u64, steps: usize, writes: usize) -> u64 {
    let mut sum = start.map_or(0, Block::free);
    for _ in 0..steps {
        let mut block = Block::new(8, me);
        block.count_up(3, writes);
        sum = sum.wrapping_add(block.free());
    }
    sum
}

/// Two threads allocate piles of blocks and free them last first, first first, or every other one
/// first; every third pile goes to the other thread, unless [`MOST_PARCELS`] are on the way.
pub(crate) fn piles(scale: Scale) -> u64 {
    let mail: [Mail; 2] = Default::default();
    let rounds = scale.steps(11_000);
    let sum = together(2, |me| {
        let mut rng = Rng::new(60 + me);
        let (mine, theirs) = (&mail[me as usize], &mail[1 - me as usize]);
        let mut sum = 0u64;
        for round in 0..rounds {
            let size = rng.skewed(8, 1023);
            let pile: Vec<Block> = (0..200).map(|at| Block::new(size + at % 8, (round + at) as u64)).collect();
            match round % 3 {
                0 => sum = free_all(pile.into_iter().rev(), sum),
                1 => {
                    let (even, odd): (Vec<_>, Vec<_>) = pile.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
                    sum = free_all(even.into_iter().chain(odd).map(|(_, block)| block), sum);
                }
                _ => sum = free_all(send(theirs, pile), sum),
            }
            let arrived = core::mem::take(&mut *lock(mine));
            sum = free_all(arrived.into_iter().flatten(), sum);
        }
        sum
    });
    free_rest(mail, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_of_a_thread_that_does_not_run_stays_small() {
        let mail: [Mail; 2] = Default::default();
        let back: usize =
            (0..100).map(|at| send(&mail[0], vec![Block::new(64, at)]).into_iter().map(Block::free).count()).sum();
        assert_eq!((back, lock(&mail[0]).len()), (100 - MOST_PARCELS, MOST_PARCELS));
        free_rest(mail, 0);
    }
}
