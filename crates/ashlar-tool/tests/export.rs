//! `ashlar export` from outside: a monitor asks by HTTP.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/running.rs"]
mod running;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use common::{ASHLAR, command, refused};
use running::python;

/// The server, which ends with this value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut command = command(ASHLAR);
        command.args(["export", "--listen", "127.0.0.1:0"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its address");
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        Server { address: address.unwrap_or_else(|| panic!("an address: {line}")).to_owned(), child }
    }

    /// Sends a request; the head of the answer and its body.
    fn ask(&self, request: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Headers of a client that reads HTTP 1.0 too, so that the body comes in one piece.
const OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\nTE: identity\r\n";

#[test]
fn a_monitor_reads_all_processes_in_either_format() {
    let Some(child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let server = Server::start(&[]);
    let (head, open) = server.ask("GET /metrics", OPEN);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE ashlar_cache_events counter\n"), "{open}");
    let (head, plain) = server.ask("GET /metrics?x=1", "TE: identity\r\n");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(plain.contains("# TYPE ashlar_cache_events_total counter\n") && !plain.contains("# EOF"), "{plain}");
    for text in [&open, &plain] {
        assert!(text.contains(&format!("ashlar_resident_bytes{{pid=\"{}\",name=\"python3\"}} ", child.pid)), "{text}");
        let mut seen = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(series.starts_with("ashlar_") && value.parse::<u64>().is_ok(), "{line}");
            assert!(seen.insert(series), "{series} occurs twice");
        }
    }
    let (head, _) = server.ask("HEAD /metrics", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[test]
fn the_number_of_series_is_bounded() {
    let Some(_child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let text = Server::start(&["--caches", "3"]).ask("GET /metrics", OPEN).1;
    let caches = text.lines().filter(|line| line.starts_with("ashlar_cache_slabs{"));
    assert_eq!(caches.count(), 3, "{text}");
    let left_out = text.lines().find_map(|line| line.strip_prefix("ashlar_export_caches_left_out "));
    assert!(left_out.expect("a figure").parse::<u64>().expect("a number") > 3, "{text}");
}

#[test]
fn other_requests_are_answered_and_end_nothing() {
    let server = Server::start(&[]);
    for (request, code) in [("GET /", "200"), ("GET /nothing", "404"), ("POST /metrics", "405"), ("DELETE /x", "405")] {
        let (head, _) = server.ask(request, "Content-Length: 0\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {head}");
    }
    for garbage in [&b"\x00\xff\r\n\r\n"[..], b"GET", b"GET /metrics HTTP/9.9\r\n\r\n", &[b'A'; 5000]] {
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        let _ = stream.write_all(garbage);
        drop(stream);
    }
    assert!(server.ask("GET /metrics", OPEN).0.starts_with("HTTP/1.1 200"));
}

#[test]
fn addresses_that_cannot_be_listened_at_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["--listen", "127.0.0.1"], "--listen: 127.0.0.1: expected ADDRESS:PORT"),
        (&["--listen", "127.0.0.1:99999"], "--listen: 127.0.0.1:99999: expected ADDRESS:PORT"),
        (&["--listen", "localhost:x"], "--listen: localhost:x: expected ADDRESS:PORT"),
        (&["--listen", &taken], "ddress already in use"),
        (&["--listen", "192.0.2.1:9464"], "--listen: 192.0.2.1:9464: "),
        (&["--caches", "100001"], "--caches"),
    ];
    refused(&["export"], cases);
}

#[test]
fn the_dashboard_asks_for_series_that_exist() {
    let Some(_child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/ashlar.json");
    let text = std::fs::read_to_string(file).expect("the dashboard");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let served = Server::start(&[]).ask("GET /metrics", OPEN).1;
    let mut names = BTreeSet::new();
    for panel in json["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.extend(words.filter(|word| word.starts_with("ashlar_")).map(str::to_owned));
        }
    }
    assert!(names.len() > 6, "{names:?}");
    for name in names {
        assert!(served.contains(&format!("\n{name}{{")), "{name} is not served");
    }
}
