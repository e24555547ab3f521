//! `ashlar export`: the figures of all processes that may be read, for a monitor that asks by HTTP.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use tiny_http::{Header, Method, Request, Response, Server};

use super::prometheus::{self, Form};
use super::ps;
use super::report::Report;
use crate::args::ExportArgs;
use crate::error::ToolError;
use crate::output;

/// Requests within this time get the same figures, so that processes are not read more often.
const FRESH: Duration = Duration::from_secs(1);

/// The figures that were read last.
struct Figures {
    read: Option<(Instant, Vec<Report>, usize)>,
    /// The most caches of all processes together.
    most: usize,
}

/// Runs the command, until a signal ends it.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode, ToolError> {
    let bad = |error: &dyn core::fmt::Display| ToolError::option("--listen", format_args!("{}: {error}", args.listen));
    let address: SocketAddr = args.listen.parse().map_err(|_| bad(&"expected ADDRESS:PORT, as 127.0.0.1:9464"))?;
    let server = Server::http(address).map_err(|error| bad(&error))?;
    let address = server.server_addr().to_ip().map_or_else(String::new, |address| address.to_string());
    output::print(&format!("http://{address}/metrics\n"))?;
    let mut figures = Figures { read: None, most: args.caches as usize };
    for request in server.incoming_requests() {
        // The client may have closed the connection.
        if let Err(error) = answer(request, &mut figures) {
            let _ = writeln!(std::io::stderr(), "ashlar: export: {error}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(request: Request, figures: &mut Figures) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    let plain = |text: &str, code: u16| Response::from_string(text).with_status_code(code);
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(plain("expected GET\n", 405));
    }
    match path.as_str() {
        "/metrics" => {}
        "/" => return request.respond(plain("The figures are at /metrics.\n", 200)),
        _ => return request.respond(plain("not found; the figures are at /metrics\n", 404)),
    }
    let accepts = |header: &Header| {
        header.field.equiv("Accept") && header.value.as_str().contains("application/openmetrics-text")
    };
    let form = if request.headers().iter().any(accepts) { Form::OpenMetrics } else { Form::Prometheus };
    match figures.text(form) {
        Ok(text) => {
            let kind = Header::from_bytes("Content-Type", form.content_type())
                .map_err(|()| std::io::ErrorKind::InvalidData)?;
            // In one piece: its length is known.
            request.respond(Response::from_string(text).with_header(kind).with_chunked_threshold(usize::MAX))
        }
        Err(error) => request.respond(plain(&format!("{error}\n"), 500)),
    }
}

impl Figures {
    fn text(&mut self, form: Form) -> Result<String, ToolError> {
        if self.read.as_ref().is_none_or(|(at, ..)| at.elapsed() >= FRESH) {
            let mut reports = ps::readable()?;
            let left_out = bound(&mut reports, self.most);
            self.read = Some((Instant::now(), reports, left_out));
        }
        let (_, reports, left_out) = self.read.as_ref().expect("they were read above");
        Ok(prometheus::render_all(reports, *left_out, form))
    }
}

/// Keeps the `most` caches with the most memory, over all processes. Returns the number of the
/// others. Caches without slabs are not counted, and left out.
fn bound(reports: &mut [Report], most: usize) -> usize {
    let mut sizes: Vec<u64> = Vec::new();
    for allocator in reports.iter_mut().flat_map(|report| &mut report.allocators) {
        allocator.caches.retain(|cache| cache.slabs > 0);
        sizes.extend(allocator.caches.iter().map(|cache| cache.bytes));
    }
    let all = sizes.len();
    if all <= most {
        return 0;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(most).copied().unwrap_or(0);
    // First those that are larger than the first one that has no place, then of its size as fit.
    let larger = sizes.iter().filter(|&&bytes| bytes > least).count();
    let mut equal = most - larger;
    for allocator in reports.iter_mut().flat_map(|report| &mut report.allocators) {
        allocator.caches.retain(|cache| {
            let keep = cache.bytes > least || cache.bytes == least && equal > 0;
            if keep && cache.bytes == least {
                equal -= 1;
            }
            keep
        });
    }
    all - most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::report::{Allocator, Cache};

    fn report(sizes: &[u64]) -> Report {
        let caches = sizes.iter().map(|&bytes| Cache { bytes, slabs: bytes.min(1), ..Cache::default() }).collect();
        Report { allocators: vec![Allocator { caches, ..Allocator::default() }], ..Report::default() }
    }

    fn sizes(reports: &[Report]) -> Vec<u64> {
        reports.iter().flat_map(|report| &report.allocators[0].caches).map(|cache| cache.bytes).collect()
    }

    #[test]
    fn the_largest_caches_of_all_processes_are_kept() {
        let all = || [report(&[8, 0, 4, 4]), report(&[4, 9, 1])];
        for (most, kept) in [
            (10, vec![8, 4, 4, 4, 9, 1]),
            (6, vec![8, 4, 4, 4, 9, 1]),
            (5, vec![8, 4, 4, 4, 9]),
            (4, vec![8, 4, 4, 9]),
            (2, vec![8, 9]),
            (1, vec![9]),
            (0, vec![]),
        ] {
            let mut reports = all();
            let left_out = bound(&mut reports, most);
            assert_eq!((sizes(&reports), left_out), (kept.clone(), 6 - kept.len()), "{most}");
        }
    }
}
