//! One measured process: forwards with one allocator in one mode until its standard input ends.

mod completions;
mod forwarder;
mod memory;
mod network;
mod packet;
mod parts;
pub(crate) mod pool;
mod routes;
mod skb;
mod sockets;
#[cfg(test)]
mod tests;
mod traffic;
mod veth;

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use crate::experiments::forward::child::completions::{Completions, Free};
use crate::experiments::forward::child::forwarder::Forwarder;
use crate::experiments::forward::child::memory::MemoryWire;
use crate::experiments::forward::child::network::Network;
use crate::experiments::forward::child::parts::Parts;
use crate::experiments::forward::child::pool::{Others, Pool};
use crate::experiments::forward::child::routes::Routes;
use crate::experiments::forward::child::traffic::Trace;
use crate::experiments::forward::child::veth::Veth;
use crate::experiments::forward::plan::protocol::{Reply, Request, Setup};
use crate::experiments::forward::plan::tally::Tally;
use crate::kit::counts::Counts;
use crate::kit::error::LabError;
use crate::kit::measure::{allowed_cpus, pin};

/// Seed of tables and traces: the same in every process.
const SEED: u64 = 1;

/// How often a thread looks before it yields: about 100 microseconds, longer than a poll takes.
const PATIENCE: u32 = 10_000;

/// If the command is killed, its processes go too, whatever they are doing, and with them their
/// namespaces.
fn die_with_parent() {
    // SAFETY: prctl with PR_SET_PDEATHSIG takes one signal number and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// One kind of run.
trait Bench {
    /// Forwards `packets`; nanoseconds that the forwarder took, and what became of the packets.
    fn run(&mut self, packets: usize, checks: bool) -> Result<(u64, Tally), String>;

    fn end(self) -> Result<(), String>;
}

/// Forwarding from memory to memory.
struct InMemory<P>(Forwarder<P, MemoryWire>);

impl<P: Pool> Bench for InMemory<P> {
    fn run(&mut self, packets: usize, checks: bool) -> Result<(u64, Tally), String> {
        let forwarder = &mut self.0;
        forwarder.tally = Tally::default();
        forwarder.wire.start(packets, checks);
        let start = Instant::now();
        while forwarder.wire.left > 0 {
            forwarder.poll()?;
        }
        forwarder.drain();
        Ok((start.elapsed().as_nanos() as u64, forwarder.tally))
    }

    fn end(self) -> Result<(), String> {
        self.0.end()
    }
}

impl<P: Pool> Bench for Veth<P> {
    fn run(&mut self, packets: usize, _checks: bool) -> Result<(u64, Tally), String> {
        // What arrives is always checked: the time of the sink is not measured.
        Self::run(self, packets)
    }

    fn end(self) -> Result<(), String> {
        Self::end(self)
    }
}

/// Serves the pool `P`. This is the function that is compiled once for each allocator.
pub(crate) fn serve<P: Pool>() -> Result<(), LabError> {
    die_with_parent();
    let mut lines = std::io::stdin().lock().lines();
    let Some(Request::Setup(setup)) = lines.next().map(read).transpose()? else {
        return Err(LabError::Usage("forward-child: expected to be started by `ashlar forward`".to_owned()));
    };
    // Before any thread is started: a user namespace is for processes of one thread.
    let network = if setup.veth { Network::build().map(Some) } else { Ok(None) };
    let built = network.and_then(|network| Ok((network, prepare::<P>(&setup)?)));
    match built {
        Err(message) => say(&Reply::Failed(message)),
        Ok((network, parts)) => {
            let ready = Reply::Ready { note: parts.pool.note(), merged: parts.pool.merged() };
            match network {
                Some(network) => match Veth::new(network, parts) {
                    Ok(veth) => answer::<P, _>(veth, &ready, &mut lines),
                    Err(message) => say(&Reply::Failed(message)),
                },
                None => answer::<P, _>(InMemory(parts.forwarder(MemoryWire::new)), &ready, &mut lines),
            }
        }
    }
}

fn prepare<P: Pool>(setup: &Setup) -> Result<Parts<P>, String> {
    let allowed = allowed_cpus();
    pin(allowed[0]);
    let routes = Arc::new(Routes::generate(setup.routes, SEED));
    let trace = Arc::new(Trace::generate(&routes, setup.flows, setup.size, setup.bad, SEED));
    let pool = Arc::new(P::new()?);
    if setup.tuned {
        pool.tune()?;
    }
    let others = Others::new(&*pool, setup.others)?;
    let free = setup.bulk.map_or(Free::OneByOne, Free::Bulk);
    let completions = if setup.other_cpu {
        let cpu = allowed[1 % allowed.len()];
        let patience = if allowed.len() < 2 { 0 } else { PATIENCE };
        Completions::other(&pool, free, patience, move || pin(cpu))
    } else {
        Completions::same(free)
    };
    Ok(Parts { pool, routes, trace, completions, others })
}

/// Answers requests until there are no more.
fn answer<P: Pool, B: Bench>(
    bench: B,
    ready: &Reply,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Result<(), LabError> {
    say(ready)?;
    let mut bench = Some(bench);
    for line in lines {
        match (read(line)?, bench.take()) {
            (Request::Run { packets, checks }, Some(mut running)) => {
                let before = P::counts();
                let reply = match running.run(packets, checks) {
                    Ok((_, tally)) if tally.received != packets as u64 || !tally.is_conserved() => {
                        Reply::Failed(format!("of {packets} packets some are missing: {tally:?}"))
                    }
                    Ok((nanoseconds, tally)) => {
                        let counts = before
                            .zip(P::counts())
                            .map(|(before, after)| Counts::between(&before, &after, packets as f64));
                        Reply::Done { nanoseconds, tally, counts }
                    }
                    Err(message) => Reply::Failed(message),
                };
                say(&reply)?;
                bench = Some(running);
            }
            (Request::End, Some(running)) => {
                say(&running.end().map_or_else(Reply::Failed, |()| Reply::Ended))?;
            }
            _ => return Err(LabError::Usage("forward-child: asked for something after the end".to_owned())),
        }
    }
    Ok(())
}

fn read(line: std::io::Result<String>) -> Result<Request, LabError> {
    let line = line.map_err(|error| LabError::Failed(format!("forward-child: {error}")))?;
    serde_json::from_str(&line)
        .map_err(|error| LabError::Usage(format!("forward-child: `{line}` is no request: {error}")))
}

fn say(reply: &Reply) -> Result<(), LabError> {
    let failed = |error: String| LabError::Failed(format!("forward-child: {error}"));
    let line = serde_json::to_string(reply).map_err(|error| failed(error.to_string()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| failed(error.to_string()))
}
