//! The model: CPUs that work, and locks that they share.
//!
//! A CPU does its operations one after the other; now and then one of them takes a lock. Between
//! two takings it works for itself. Who finds a lock taken waits. A taking costs its hold time; the
//! cost of the lines that come along when another CPU was there before; and, when it was waited for
//! or another CPU waits meanwhile, the handover, one line. Where waiters poll the lock's word
//! ([`Waiting::Polls`]), each of them slows the holder as well. Unless tickets give an order, that
//! a lock is free the waiters see when its line has come to them, and who released it and wants it
//! again before that has it again, with all the lines where they are.
//!
//! Time goes on from event to event: a heap for each lock holds for each CPU the moment at which it
//! wants that lock next, and the earliest is served, unless it waits and the last holder comes back
//! in time. So a lock is a moment, the one until which it is taken. Gaps and holds vary by a gamma
//! distribution around their means, since with constant times CPUs that started together would meet
//! for ever or never. The numbers come from PCG, whose stream for a seed is the same on every
//! machine and in every version.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Gamma};
use rand_pcg::Pcg64Mcg;

/// A lock that CPUs share. Times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SharedLock {
    /// Operations of one CPU between two takings; more than 0.
    pub(crate) every: f64,
    /// Mean time from taking to release, when the same CPU had it last.
    pub(crate) hold: f64,
    /// What it takes longer when another CPU had it last.
    pub(crate) moved: f64,
}

/// What a CPU does while it waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It looks at the lock's word all the time, as in the kernel until 2008. Who comes when the
    /// lock is free has it.
    Polls,
    /// It polls, and locks are taken in the order in which CPUs came: tickets, until 2015.
    Tickets,
    /// It looks at a word of its own, or seldom: it does not slow the holder.
    Apart,
}

/// What CPUs of one kind do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    /// Ticks of an operation without what happens under shared locks.
    pub(crate) local: f64,
    pub(crate) locks: Vec<SharedLock>,
    /// What a lock costs more when it was waited for.
    pub(crate) handover: f64,
    /// What each CPU that polls the lock's word adds to that.
    pub(crate) polled: f64,
    pub(crate) waiting: Waiting,
    /// Standard deviation of gaps and holds over their means: 0 for constant times, 1 for
    /// exponential ones.
    pub(crate) spread: f64,
}

/// Gaps and holds of real programs are neither constant nor without memory. Between the two the
/// predictions move little.
pub(crate) const SPREAD: f64 = 0.25;

/// Takings after which a simulated run is long enough: the sum over all CPUs.
const TAKINGS: f64 = 300_000.0;
/// Takings that each CPU must have at least, so that the start does not count for much.
const TAKINGS_OF_A_CPU: f64 = 200.0;

/// A CPU that wants a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    at: f64,
    cpu: usize,
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.cpu.cmp(&other.cpu))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A lock during a run.
#[derive(Clone, Debug, Default)]
struct State {
    taken_until: f64,
    last: Option<usize>,
    /// The CPUs that waited when it was taken last, in the order of their arrival.
    come: BinaryHeap<Reverse<Event>>,
    /// The CPUs that will want it later, in the order of time.
    later: BinaryHeap<Reverse<Event>>,
}

impl State {
    /// When the earliest of those who want it came or will come.
    fn first(&self) -> Option<f64> {
        [&self.come, &self.later].into_iter().filter_map(|heap| Some(heap.peek()?.0.at)).min_by(f64::total_cmp)
    }

    /// Takes out the earliest.
    fn pop(&mut self) -> Option<Event> {
        let earlier = match (self.come.peek(), self.later.peek()) {
            (Some(Reverse(come)), Some(Reverse(later))) => come <= later,
            (come, _) => come.is_some(),
        };
        if earlier { &mut self.come } else { &mut self.later }.pop().map(|Reverse(event)| event)
    }

    /// The number of those who have come by `now`.
    fn waiters(&mut self, now: f64) -> usize {
        while let Some(&Reverse(event)) = self.later.peek()
            && event.at <= now
        {
            self.later.pop();
            self.come.push(Reverse(event));
        }
        self.come.len()
    }
}

/// A CPU during a run: what it has done, and how many operations it is from its next taking of each
/// lock.
#[derive(Clone, Debug)]
struct Cpu {
    done: f64,
    until: Vec<f64>,
}

/// Varies a mean.
struct Noise {
    numbers: Pcg64Mcg,
    shape: Option<Gamma<f64>>,
}

impl Noise {
    fn new(spread: f64, seed: u64) -> Self {
        let shape = 1.0 / (spread * spread);
        // A spread of 0 has no finite shape: constant times.
        Self {
            numbers: Pcg64Mcg::seed_from_u64(seed),
            shape: Gamma::new(shape, 1.0 / shape).ok().filter(|_| spread > 0.0),
        }
    }

    fn around(&mut self, mean: f64) -> f64 {
        mean * self.shape.as_ref().map_or(1.0, |gamma| gamma.sample(&mut self.numbers))
    }

    fn part_of(&mut self, whole: f64) -> f64 {
        whole * self.numbers.random::<f64>()
    }
}

impl Model {
    /// Ticks of one operation, mean over `cpus` CPUs that all do this.
    pub(crate) fn cost(&self, cpus: usize, seed: u64) -> f64 {
        let takings: f64 = self.locks.iter().map(|lock| 1.0 / lock.every).sum();
        if takings <= 0.0 {
            return self.local;
        }
        let operations = (TAKINGS / cpus as f64).max(TAKINGS_OF_A_CPU) / takings;
        self.run(cpus, operations, seed)
    }

    fn run(&self, cpus: usize, operations: f64, seed: u64) -> f64 {
        let mut noise = Noise::new(self.spread, seed);
        let mut locks = vec![State::default(); self.locks.len()];
        let mut all: Vec<Cpu> = (0..cpus)
            .map(|_| Cpu { done: 0.0, until: self.locks.iter().map(|lock| noise.part_of(lock.every)).collect() })
            .collect();
        let mut sum = 0.0;
        for (cpu, state) in all.iter_mut().enumerate() {
            match self.go_on(state, 0.0, operations) {
                Next::Wants { lock, at } => locks[lock].later.push(Reverse(Event { at, cpu })),
                Next::Ends { each } => sum += each,
            }
        }
        'events: while let Some(mut lock) = earliest(&locks) {
            let Some(mut event) = locks[lock].pop() else { break };
            // A turn of one CPU: this taking, and those for which it comes back before a waiter has
            // seen that the lock is free.
            loop {
                let (of, state, Event { at, cpu }) = (&self.locks[lock], &mut locks[lock], event);
                let start = at.max(state.taken_until);
                let waiters = state.waiters(start);
                let contended = state.taken_until > at || waiters > 0;
                let foreign = state.last.is_some_and(|last| last != cpu);
                let polled = match self.waiting {
                    Waiting::Polls | Waiting::Tickets => waiters as f64 * self.polled,
                    Waiting::Apart => 0.0,
                };
                let handover = if contended { self.handover + polled } else { 0.0 };
                let extra = if foreign { of.moved } else { 0.0 } + handover;
                let free = start + noise.around(of.hold) + extra;
                (state.taken_until, state.last) = (free, Some(cpu));
                let waiting = state.first().is_some_and(|first| first <= free);
                all[cpu].until[lock] = noise.around(of.every);
                match self.go_on(&mut all[cpu], free, operations) {
                    Next::Wants { lock: next, at } => {
                        event = Event { at, cpu };
                        let in_order = self.waiting == Waiting::Tickets;
                        if next != lock || !waiting || in_order || at >= free + self.handover {
                            lock = next;
                            break;
                        }
                    }
                    Next::Ends { each } => {
                        sum += each;
                        continue 'events;
                    }
                }
            }
            locks[lock].later.push(Reverse(event));
        }
        sum / cpus as f64
    }

    /// Lets a CPU work from `now` to its next taking, or to its end.
    fn go_on(&self, state: &mut Cpu, now: f64, operations: f64) -> Next {
        let next = state.until.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((lock, gap)) = next.filter(|(_, gap)| state.done + gap <= operations) else {
            return Next::Ends { each: (now + (operations - state.done) * self.local) / operations };
        };
        state.done += gap;
        state.until.iter_mut().for_each(|until| *until -= gap);
        Next::Wants { lock, at: now + gap * self.local }
    }
}

/// What comes after a CPU's work for itself.
enum Next {
    /// A lock, at a moment.
    Wants { lock: usize, at: f64 },
    /// Nothing: it has done all, and one operation took so long.
    Ends { each: f64 },
}

/// The lock that a CPU requests first.
fn earliest(locks: &[State]) -> Option<usize> {
    let firsts = locks.iter().enumerate().filter_map(|(lock, state)| Some((lock, state.first()?)));
    firsts.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(lock, _)| lock)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::function::gamma::gamma_lr;

    use super::*;

    fn model(local: f64, every: f64, hold: f64, spread: f64) -> Model {
        Model {
            local,
            locks: vec![SharedLock { every, hold, moved: 0.0 }],
            handover: 0.0,
            polled: 0.0,
            waiting: Waiting::Polls,
            spread,
        }
    }

    /// Cost for `cpus` customers by mean value analysis, which is exact for exponential times.
    fn analysed(model: &Model, cpus: usize) -> f64 {
        let lock = model.locks[0];
        let (think, mut queue, mut cycle) = (model.local * lock.every, 0.0, 0.0);
        for customers in 1..=cpus {
            let response = lock.hold * (1.0 + queue);
            cycle = think + response;
            queue = customers as f64 * response / cycle;
        }
        cycle / lock.every
    }

    /// How long a lock that others wait for is free in the mean after a taking: as long as its last
    /// holder is away, if that is less than a line takes to the waiters, and so it has it again.
    fn idle(model: &Model) -> f64 {
        let (shape, mean) = (1.0 / (model.spread * model.spread), model.local * model.locks[0].every);
        mean * gamma_lr(shape + 1.0, shape * model.handover / mean)
    }

    #[test]
    fn without_locks_cpus_do_not_feel_each_other() {
        let alone = Model { local: 7.5, handover: 90.0, locks: Vec::new(), ..model(0.0, 1.0, 0.0, SPREAD) };
        assert_eq!(alone.cost(1, 1), 7.5);
        assert_eq!(alone.cost(1024, 1), 7.5);
    }

    #[test]
    fn a_seed_fixes_the_result_and_another_changes_it() {
        let model = model(10.0, 20.0, 50.0, SPREAD);
        assert_eq!(model.cost(8, 3).to_bits(), model.cost(8, 3).to_bits());
        assert_ne!(model.cost(8, 3).to_bits(), model.cost(8, 4).to_bits());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn one_cpu_costs_the_sum_of_what_it_does(
            local in 1.0..200.0f64,
            every in 1.0..100.0f64,
            hold in 1.0..2000.0f64,
            second in 1.0..100.0f64,
            seed in any::<u64>(),
        ) {
            let mut model = model(local, every, hold, SPREAD);
            // Lines move only between CPUs, and no CPU waits for itself.
            model.locks[0].moved = 1e6;
            model.handover = 1e6;
            model.locks.push(SharedLock { every: second, hold: 30.0, moved: 1e6 });
            let sum = local + hold / every + 30.0 / second;
            prop_assert!((model.cost(1, seed) / sum - 1.0).abs() < 0.02, "{} for {sum}", model.cost(1, seed));
        }

        #[test]
        fn a_lock_serves_no_more_than_one_over_its_hold_time(
            local in 1.0..50.0f64,
            every in 1.0..50.0f64,
            hold in 100.0..2000.0f64,
            cpus in 64usize..256,
        ) {
            let model = model(local, every, hold, SPREAD);
            prop_assume!(cpus as f64 * hold > 3.0 * (local * every + hold));
            // Operations in a tick, of all CPUs together, times takings for an operation.
            let takings = cpus as f64 / model.cost(cpus, 1) / every;
            prop_assert!((takings * hold - 1.0).abs() < 0.06, "{takings} takings of {hold} ticks");
        }

        #[test]
        fn more_cpus_never_make_an_operation_cheaper(
            local in 1.0..100.0f64,
            every in 1.0..60.0f64,
            hold in 1.0..1000.0f64,
            moved in 0.0..500.0f64,
            seed in any::<u64>(),
        ) {
            let mut model = model(local, every, hold, SPREAD);
            model.locks[0].moved = moved;
            model.handover = moved / 2.0;
            let costs: Vec<f64> = [1, 2, 4, 8, 32, 128].map(|cpus| model.cost(cpus, seed)).to_vec();
            prop_assert!(costs.is_sorted_by(|fewer, more| *more >= fewer * 0.98), "{costs:?}");
        }

        #[test]
        fn a_longer_hold_never_makes_it_cheaper(hold in 1.0..500.0f64, factor in 1.2..4.0f64, cpus in 1usize..64) {
            let (short, long) = (model(20.0, 10.0, hold, SPREAD), model(20.0, 10.0, hold * factor, SPREAD));
            prop_assert!(long.cost(cpus, 1) >= short.cost(cpus, 1) * 0.99);
        }

        #[test]
        fn exponential_times_give_what_mean_value_analysis_gives(
            local in 1.0..50.0f64,
            every in 1.0..40.0f64,
            share in 0.02..1.5f64,
            cpus in 2usize..40,
        ) {
            let model = model(local, every, local * every * share, 1.0);
            let (found, exact) = (model.cost(cpus, 7), analysed(&model, cpus));
            prop_assert!((found / exact - 1.0).abs() < 0.05, "{found} and {exact}");
        }

        /// A gap of less than a line: the lock is taken again before the other CPU sees it free, so
        /// lines seldom move.
        #[test]
        fn who_comes_back_at_once_has_the_lock_again(gap in 5.0..40.0f64, hold in 5.0..100.0f64, moved in 500.0..2000.0f64) {
            let mut back = model(gap, 1.0, hold, SPREAD);
            back.locks[0].moved = moved;
            back.handover = 100.0;
            // Each taking costs its hold and the waiter's line, and few move the others.
            let turns = 2.0 * (hold + 100.0);
            let cost = back.cost(2, 1);
            prop_assert!(cost < gap + turns + 0.1 * moved && cost > 0.4 * turns, "{cost}");
            // Who stays away for longer finds it with the other.
            let mut away = Model { local: 300.0, ..back };
            away.locks[0].hold = 300.0;
            prop_assert!(away.cost(2, 1) > 600.0 + 0.9 * moved);
        }

        /// Most CPUs wait all the time.
        #[test]
        fn each_poller_adds_to_a_taking(
            hold in 100.0..300.0f64,
            handover in 5.0..100.0f64,
            each in 5.0..100.0f64,
            cpus in 8usize..64,
            tickets in any::<bool>(),
        ) {
            let waiting = if tickets { Waiting::Tickets } else { Waiting::Polls };
            let polled = Model { handover, polled: each, waiting, ..model(110.0, 1.0, hold, SPREAD) };
            let apart = Model { waiting: Waiting::Apart, ..polled.clone() };
            let of_all = |idle: f64, pollers: usize| cpus as f64 * (hold + handover + idle + each * pollers as f64);
            let idle_of_polled = if tickets { 0.0 } else { idle(&polled) };
            // Up to three CPUs are on their way.
            let (least, most) = (of_all(idle_of_polled, cpus - 4), of_all(idle_of_polled, cpus));
            let cost = polled.cost(cpus, 1);
            prop_assert!(cost >= least * 0.95 && cost <= most * 1.05, "{least} to {most}, {cost}");
            let expected = of_all(idle(&apart), 0);
            prop_assert!((apart.cost(cpus, 1) / expected - 1.0).abs() < 0.05, "{expected}, {}", apart.cost(cpus, 1));
        }

        #[test]
        fn cpus_on_nodes_of_their_own_do_not_wait(local in 1.0..100.0f64, hold in 1.0..1000.0f64) {
            let model = model(local, 10.0, hold, SPREAD);
            prop_assert!(model.cost(2, 1) >= model.cost(1, 1) * 0.99);
        }
    }
}
