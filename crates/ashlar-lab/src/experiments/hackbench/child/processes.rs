//! Senders and receivers as processes, as hackbench has them.
//!
//! Each process has a heap of its own, so no object can be freed by who did not allocate it: what
//! crosses is a copy, on a stream socket, as in hackbench. The sender allocates head and payload,
//! writes the payload to the socket and frees both; the receiver allocates head and payload, reads
//! into the payload and frees both. So each message is two pairs in each of two processes, and no
//! remote free: what is measured is mostly the kernel's sockets, with its own slab allocator
//! beneath them.
//!
//! The heap is opened after the fork. The process that forks has used no allocator but the C
//! library's, and has one thread.

use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::experiments::hackbench::child::message::{Ledger, Tag, kinds};
use crate::experiments::hackbench::plan::{Figures, Work};
use crate::systems::heap::Heap;

/// What a process reports at its end: whether it went well, and its figures, as words.
const WORDS: usize = 4;

/// Passes all messages; the time from when all processes were ready until all were gone, and the
/// sum of their figures at their ends.
pub(crate) fn run<H: Heap>(work: &Work) -> Result<(Duration, Figures), String> {
    let told = |error: std::io::Error| format!("cannot start the processes: {error}");
    let (mut ready, ready_in) = pipe().map_err(told)?;
    let (wake_out, wake) = pipe().map_err(told)?;
    let (mut reports, report_in) = pipe().map_err(told)?;
    let mut children = Vec::new();
    for _ in 0..work.groups {
        let pairs: Vec<(UnixStream, UnixStream)> =
            (0..work.fds).map(|_| UnixStream::pair()).collect::<Result<_, _>>().map_err(told)?;
        for task in 0..2 * work.fds {
            // SAFETY: this process has one thread, so the child may do all that this program may.
            match unsafe { libc::fork() } {
                -1 => {
                    let error = std::io::Error::last_os_error();
                    // The others wait for the word to start: they end when it never comes.
                    children.iter().for_each(|&child| stop(child));
                    return Err(told(error));
                }
                0 => {
                    drop((ready, wake, reports));
                    let outcome = task_of::<H>(work, task, pairs, ready_in, wake_out, report_in);
                    if let Err(error) = &outcome {
                        eprintln!("hackbench: {error}");
                    }
                    // SAFETY: ends the child without what the program has registered for its end;
                    // nothing is buffered.
                    unsafe { libc::_exit(i32::from(outcome.is_err())) };
                }
                child => children.push(child),
            }
        }
    }
    drop((ready_in, wake_out, report_in));
    let mut all = vec![0; children.len()];
    let started = ready.read_exact(&mut all).map_err(|_| "a process ended before it was ready".to_owned());
    let start = Instant::now();
    drop(wake);
    let well = children.iter().filter(|&&child| !wait(child)).count() == 0;
    let elapsed = start.elapsed();
    started?;
    let mut words = Vec::new();
    reports.read_to_end(&mut words).map_err(told)?;
    if !well || words.len() != children.len() * WORDS * 8 {
        return Err("a process failed".to_owned());
    }
    let mut sum = Figures::default();
    for report in words.chunks_exact(WORDS * 8) {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&report[8 * at..][..8]);
            u64::from_le_bytes(bytes)
        };
        if word(0) != 0 {
            *sum.slab_kib.get_or_insert(0) += word(1);
        }
        sum.metadata_kib += word(2);
        sum.rss_kib += word(3);
    }
    Ok((elapsed, sum))
}

fn stop(child: libc::pid_t) {
    // SAFETY: a process that we started and have not waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait(child);
}

/// Waits for the end of a child; whether it ended well.
fn wait(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the place is live; the process is our child.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// The life of one process: `task` counts the receivers of its group first, then the senders.
fn task_of<H: Heap>(
    work: &Work,
    task: usize,
    pairs: Vec<(UnixStream, UnixStream)>,
    mut ready: impl Write,
    mut wake: impl Read,
    mut report: impl Write,
) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let heap = H::open(&kinds(&work.sizes))?;
    heap.thread_start();
    let (outs, ins): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    ready.write_all(&[0]).map_err(told)?;
    // The end of this pipe is the word to start.
    wake.read_to_end(&mut Vec::new()).map_err(told)?;
    if task < work.fds {
        drop(ins);
        receive(&heap, work, &outs[task])?;
    } else {
        drop(outs);
        send(&heap, work, task - work.fds, &ins)?;
    }
    let figures = Figures::of(&heap);
    let words =
        [u64::from(figures.slab_kib.is_some()), figures.slab_kib.unwrap_or(0), figures.metadata_kib, figures.rss_kib];
    // Less than a pipe takes at once: reports do not mix.
    report.write_all(&words.map(u64::to_le_bytes).concat()).map_err(told)
}

/// A head and a payload, allocated and freed around `body`, which is given the payload's bytes.
fn with_message<R>(
    heap: &impl Heap,
    size: usize,
    body: impl FnOnce(&mut [u8]) -> Result<R, String>,
) -> Result<R, String> {
    let (head, payload) = (heap.alloc(0), heap.alloc(1));
    if head.is_null() || payload.is_null() {
        return Err("memory ended".to_owned());
    }
    // SAFETY: fresh objects of kinds with room for a word and for `size` bytes, ours alone; the
    // bytes are made values first.
    let outcome = unsafe {
        head.cast::<*mut u8>().write(payload);
        payload.write_bytes(0, size);
        body(core::slice::from_raw_parts_mut(payload, size))
    };
    // SAFETY: allocated above, as these kinds, and no longer used.
    unsafe {
        heap.free(1, payload);
        heap.free(0, head);
    }
    outcome
}

fn send(heap: &impl Heap, work: &Work, from: usize, sockets: &[UnixStream]) -> Result<(), String> {
    for number in 0..work.loops {
        for mut socket in sockets {
            with_message(heap, work.sizes[0], |payload| {
                Tag { from, number }.fill(payload);
                socket.write_all(payload).map_err(|error| format!("a socket: {error}"))
            })?;
        }
    }
    Ok(())
}

fn receive(heap: &impl Heap, work: &Work, mut socket: &UnixStream) -> Result<(), String> {
    let mut ledger = Ledger::new(work.fds);
    for _ in 0..work.fds * work.loops {
        let tag = with_message(heap, work.sizes[0], |payload| {
            socket.read_exact(payload).map_err(|error| format!("a socket: {error}"))?;
            Ok(Tag::read(payload))
        })?;
        ledger.enter(tag)?;
    }
    if ledger.is_complete(work.loops) { Ok(()) } else { Err("messages are missing".to_owned()) }
}
