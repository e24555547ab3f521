//! The process of a round.

mod control;
mod owned;

use core::time::Duration;
use std::time::Instant;

use crate::experiments::soak::child::control::{Counts, control};
use crate::experiments::soak::child::owned::{Heap, Owned};
use crate::experiments::soak::plan::{Answer, PHASES, Round};
use crate::kit::error::LabError;
use crate::kit::memory::resident_kib;
use crate::kit::once;
use crate::kit::random::Rng;

/// What may stay resident more at the end of a round than at the end of its first phase, in KiB:
/// tables that grow with the zone, and stacks.
const MAY_GROW: i64 = 16 << 10;
/// How long the threads of a generation live. Their objects go to those of the next one.
const GENERATION: Duration = Duration::from_millis(300);

/// Body of the process.
pub(crate) fn main(plan: &str) -> Result<(), LabError> {
    let round: Round = once::plan(plan, "ashlar-lab soak")?;
    once::answer(&run(&round).map_err(LabError::Failed)?)
}

fn run(round: &Round) -> Result<Answer, String> {
    let (heap, counts) = (Heap::new(round.seed)?, Counts::default());
    let mut random = Rng::new(round.seed);
    let mut resident = Vec::new();
    for _ in 0..PHASES {
        phase(round, &heap, &counts, &mut random)?;
        check_nothing_is_left(&heap)?;
        resident.push(resident_kib().unwrap_or(0));
    }
    if let (Some(first), Some(last)) = (resident.first(), resident.last())
        && last - first > MAY_GROW
    {
        return Err(format!("resident memory grew from {first} to {last} KiB, with all objects free each time"));
    }
    heap.end()?;
    let [allocated, refused, freed] = heap.counts();
    Ok(Answer { allocated, refused, freed, actions: counts.named(), resident })
}

/// Runs generations of threads, with the control beside them, and frees all.
fn phase(round: &Round, heap: &Heap, counts: &Counts, random: &mut Rng) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs_f64(round.seconds / PHASES as f64);
    let mut held: Vec<Vec<Owned>> = Vec::new();
    std::thread::scope(|scope| {
        let seed = random.draw();
        let control = scope.spawn(move || control(heap, counts, end, seed));
        let mut result = Ok(());
        while result.is_ok() && Instant::now() < end {
            held.resize_with(round.threads, Vec::new);
            let until = end.min(Instant::now() + GENERATION);
            let heirs = core::mem::take(&mut held).into_iter();
            let threads: Vec<_> = heirs
                .map(|mine| {
                    let seed = random.draw();
                    scope.spawn(move || heap.live(mine, until, seed))
                })
                .collect();
            for thread in threads {
                match thread.join() {
                    Ok(Ok(left)) => held.push(left),
                    Ok(Err(error)) => result = Err(error),
                    Err(_) => result = Err("a thread panicked".to_owned()),
                }
            }
        }
        let controlled = control.join().map_err(|_| "the control panicked".to_owned())?;
        result.and(controlled)
    })?;
    held.into_iter().flatten().try_for_each(|owned| heap.free(owned))?;
    heap.free_passed_on()
}

/// Checks that no cache has an object in use, and that debugged ones are sound.
fn check_nothing_is_left(heap: &Heap) -> Result<(), String> {
    ashlar::profile::stop();
    heap.shrink();
    ashlar::reap();
    let mut wrong = None;
    let mut names = Vec::new();
    ashlar::for_each_cache(|cache| {
        names.push(cache.name().to_owned());
        if cache.usage.live != 0 {
            wrong = Some(format!(
                "{} objects of cache {} are in use, and no record has them",
                cache.usage.live,
                cache.name()
            ));
        }
    });
    for name in names {
        if let Some(errors) = ashlar::validate(&name).filter(|&errors| errors != 0) {
            wrong = Some(format!("{errors} defects in cache {name}"));
        }
    }
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_overwritten_or_kept_is_noticed() {
        let (heap, mut random) = (Heap::new(3).expect("caches"), Rng::new(3));
        let some = |random: &mut Rng| (0..200).map(|_| heap.alloc(random).expect("memory")).collect::<Vec<_>>();
        for owned in some(&mut random) {
            owned.overwrite();
            let error = heap.free(owned).expect_err("overwritten");
            assert!(error.contains("does not hold what its owner wrote"), "{error}");
        }
        assert!(heap.end().expect_err("200 are left").contains("200 objects were allocated, and 0 freed"));
        let error = check_nothing_is_left(&heap).expect_err("200 are left");
        assert!(error.contains(" are in use, and no record has them"), "{error}");
    }

    #[test]
    fn a_thread_hands_on_what_it_has() {
        let heap = Heap::new(4).expect("caches");
        let left = heap.live(Vec::new(), Instant::now() + Duration::from_millis(50), 1).expect("sound objects");
        left.into_iter().try_for_each(|owned| heap.free(owned)).expect("sound objects");
        heap.free_passed_on().expect("sound objects");
        heap.end().expect("all were freed");
    }
}
