//! One measured process: it serves one system until its standard input ends.
//!
//! The threads are started once, each pinned to its CPU, and sleep between two requests, so that
//! the process costs nothing while another one is measured.

mod passes;

use core::sync::atomic::AtomicBool;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};

use crate::experiments::kernel_tests::child::passes::{Pass, Slots, Ticks, WARMING_PASSES, run};
use crate::experiments::kernel_tests::plan::protocol::{Group, Reply, Request};
use crate::kit::counts::Counts;
use crate::kit::error::LabError;
use crate::kit::measure::{self, SpinBarrier, allowed_cpus, pin};
use crate::kit::memory::resident_kib;
use crate::systems::traits::{Handle, Setup, System};

/// A request to a thread of the pool.
struct Job {
    asked: Asked,
    threads: usize,
    barrier: Arc<SpinBarrier>,
    warm: Arc<AtomicBool>,
}

/// What is to be measured.
#[derive(Clone, Copy)]
struct Asked {
    group: Group,
    size: usize,
    /// Passes that warm up, at most.
    warming: usize,
}

/// Serves `S`. This is the function that is compiled once for each system.
pub(crate) fn serve<S: System>() -> Result<(), LabError> {
    let mut lines = std::io::stdin().lock().lines();
    let Some(Request::Setup { setup, start }) = lines.next().map(read).transpose()? else {
        return Err(LabError::Usage("bench-child: expected to be started by `ashlar bench`".to_owned()));
    };
    let threads = Group::Remote.threads(setup.cpus);
    let before = resident_kib();
    let system = match S::new(&setup, threads) {
        Ok(system) => Arc::new(system),
        Err(message) => {
            say(&Reply::Failed(message))?;
            return Ok(());
        }
    };
    let begun = start.map_or(Ok(()), |size| begin(&*system, size));
    let own = resident_kib().zip(before).map(|(now, before)| now - before);
    let prepared = begun.and_then(|()| fragment(&*system, &setup));
    if let Err(message) = prepared {
        say(&Reply::Failed(message))?;
        return Ok(());
    }
    let slots: Arc<[Slots]> = (0..threads).map(|_| Slots::new(setup.objects)).collect();
    let (done, results) = channel();
    let allowed = allowed_cpus();
    let started = Arc::new(Barrier::new(threads + 1));
    let workers: Vec<Sender<Job>> = (0..threads)
        .map(|me| {
            let (sender, jobs) = channel();
            let (system, slots, done) = (Arc::clone(&system), Arc::clone(&slots), done.clone());
            let (cpu, started) = (allowed[me % allowed.len()], Arc::clone(&started));
            std::thread::spawn(move || {
                pin(cpu);
                system.thread_start(me);
                started.wait();
                work(&*system, me, &slots, &jobs, &done);
            });
            sender
        })
        .collect();
    // The stacks of the threads are not memory of the system.
    started.wait();
    // What the system itself took to start is.
    let base = resident_kib().zip(own).map_or(0, |(now, own)| now - own);
    say(&Reply::Ready)?;

    for line in lines {
        let reply = match read(line)? {
            Request::Setup { .. } => return Err(LabError::Usage("bench-child: set up twice".to_owned())),
            Request::Note => Reply::Note(system.note()),
            Request::Run { group, size, warm } => {
                let asked = Asked { group, size, warming: if warm { WARMING_PASSES } else { 0 } };
                let mut reply = measure(asked, &setup, allowed.len(), &workers, &results, || system.counts());
                if let Reply::Done { resident: Some(resident), .. } = &mut reply {
                    resident.iter_mut().for_each(|kib| *kib -= base);
                }
                reply
            }
        };
        say(&reply)?;
    }
    Ok(())
}

/// Allocates and frees one object of `size` bytes, which starts the allocator. Programs allocate
/// before their first thread, and an allocator may depend on that: with several threads the kernel
/// takes many milliseconds to register ashlar for `membarrier`.
fn begin<S: System>(system: &S, size: usize) -> Result<(), String> {
    let mut handle = system.handle(0, size);
    let object = measure::hide(handle.alloc());
    if object.is_null() {
        return Err(format!("an allocation of {size} bytes failed"));
    }
    // SAFETY: allocated above by this handle, freed once.
    unsafe { handle.free(object) };
    Ok(())
}

/// Makes the heap that the set-up asks for: holes between objects of the sizes `holes`, each too
/// small for what is measured, wherever objects of several sizes lie side by side.
fn fragment<S: System>(system: &S, setup: &Setup) -> Result<(), String> {
    for &size in &setup.holes {
        let mut handle = system.handle(0, size);
        let mut objects = Vec::with_capacity(setup.fragmented);
        for _ in 0..setup.fragmented {
            let object = measure::hide(handle.alloc());
            if object.is_null() {
                return Err(format!("an allocation of {size} bytes failed"));
            }
            // SAFETY: fresh, of at least one byte. A program writes what it allocates.
            unsafe { object.write_volatile(1) };
            objects.push(object);
        }
        // SAFETY: allocated above by this handle, each freed once; the others stay as long as the
        // process.
        objects.into_iter().skip(1).step_by(2).for_each(|object| unsafe { handle.free(object) });
    }
    Ok(())
}

/// A thread of the pool: takes jobs until the process ends.
fn work<S: System>(system: &S, me: usize, slots: &[Slots], jobs: &Receiver<Job>, done: &Sender<(usize, Ticks)>) {
    while let Ok(job) = jobs.recv() {
        let Asked { group, size, warming } = job.asked;
        let pass = Pass { group, size, slots, barrier: &job.barrier, warming, warm: &job.warm };
        let ticks = run(system, me, job.threads, &pass);
        if done.send((me, ticks)).is_err() {
            break;
        }
    }
}

fn measure(
    asked: Asked,
    setup: &Setup,
    allowed: usize,
    workers: &[Sender<Job>],
    results: &Receiver<(usize, Ticks)>,
    count: impl Fn() -> Option<ashlar::Counts>,
) -> Reply {
    let Asked { group, size, .. } = asked;
    let threads = group.threads(setup.cpus);
    let barrier = Arc::new(measure::SpinBarrier::new(threads, threads > allowed));
    let warm = Arc::new(AtomicBool::new(false));
    let before = count();
    for worker in &workers[..threads] {
        let job = Job { asked, threads, barrier: Arc::clone(&barrier), warm: Arc::clone(&warm) };
        if worker.send(job).is_err() {
            return Reply::Failed("a thread of the pool is gone".to_owned());
        }
    }
    let (mut phase1, mut phase2) = (vec![0; threads], vec![0; threads]);
    let (mut passes, mut resident) = (1, None);
    for _ in 0..threads {
        let Ok((me, ticks)) = results.recv() else {
            return Reply::Failed("a thread of the pool is gone".to_owned());
        };
        if !ticks.complete {
            return Reply::Failed(format!("an allocation of {size} bytes failed"));
        }
        (phase1[me], phase2[me]) = (ticks.phase1, ticks.phase2);
        passes = ticks.passes;
        resident = resident.or(ticks.resident);
    }
    // Each object is one allocation and one free.
    let allocating = if group == Group::Remote { threads - 1 } else { threads };
    let operations = (2 * setup.objects * allocating * passes) as f64;
    let counts = before.zip(count()).map(|(before, after)| Counts::between(&before, &after, operations));
    Reply::Done { phase1, phase2, counts, resident }
}

fn read(line: std::io::Result<String>) -> Result<Request, LabError> {
    let line = line.map_err(|error| LabError::Failed(format!("bench-child: {error}")))?;
    serde_json::from_str(&line)
        .map_err(|error| LabError::Usage(format!("bench-child: `{line}` is no request: {error}")))
}

fn say(reply: &Reply) -> Result<(), LabError> {
    let failed = |error: String| LabError::Failed(format!("bench-child: {error}"));
    let line = serde_json::to_string(reply).map_err(|error| failed(error.to_string()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| failed(error.to_string()))
}
