//! What the options that find mistakes cost: nanoseconds of a pair of an allocation and its free,
//! by default and with each option, with the interval in which nineteen of twenty means lie.
//!
//! ```text
//! cargo run --release -p ashlar-alloc --example option_cost [ROUNDS]
//! ```
//!
//! Options hold for a process. So each round runs one child for each option, in an order that
//! changes from round to round, and every option meets every mood of the machine.

use core::hint::black_box;
use core::ptr::NonNull;
use std::process::Command;
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache, kfree, kmalloc, malloc};

/// Environment variable that makes this program a child.
const CHILD: &str = "ASHLAR_OPTION_COST";
/// Pairs before measurements.
const WARM_UP: usize = 4_000;
/// Nanoseconds that a measurement takes about, and measurements of which the median counts.
const NANOSECONDS: f64 = 5e6;
const MEASUREMENTS: usize = 7;
/// Objects that are live at a time.
const LIVE: usize = 32;
const BYTES: usize = 100;
/// What is measured.
const COLUMNS: [&str; 3] = ["malloc", "kmalloc", "cache"];

/// The rows: names, values of `ASHLAR_OPTIONS`, and of `ASHLAR_DEBUG` if there is one.
const ROWS: [(&str, &str, Option<&str>); 16] = [
    ("default", "", None),
    ("guard=100ms", "guard=100ms", None),
    ("the same, all", "guard=100ms,cache.*.guard=on", None),
    ("guard=100000", "guard=100000", None),
    ("the same, all", "guard=100000,cache.*.guard=on", None),
    ("guard=5000", "guard=5000", None),
    ("init_on_alloc", "init_on_alloc=on", None),
    ("init_on_free", "init_on_free=on", None),
    ("quarantine=64", "quarantine=64", None),
    ("random", "random=on", None),
    ("random_kmalloc", "random_kmalloc=on", None),
    ("F", "", Some("F")),
    ("Z", "", Some("Z")),
    ("P", "", Some("P")),
    ("U", "", Some("U")),
    ("FZPU", "", Some("FZPU")),
];

/// Returns the nanoseconds of a pair.
fn time(alloc: impl Fn() -> *mut u8, free: impl Fn(*mut u8)) -> f64 {
    let round = |pairs: usize| {
        let mut live = [core::ptr::null_mut(); LIVE];
        let start = Instant::now();
        for _ in 0..pairs.div_ceil(LIVE) {
            live.fill_with(|| black_box(alloc()));
            live.iter().for_each(|&object| free(black_box(object)));
        }
        start.elapsed().as_nanos() as f64 / pairs.next_multiple_of(LIVE) as f64
    };
    // The first pairs warm up, and say how many take as long as a measurement is to.
    round(WARM_UP);
    let pairs = (NANOSECONDS / round(WARM_UP)) as usize;
    let mut times = [0.0; MEASUREMENTS].map(|_: f64| round(pairs));
    times.sort_by(f64::total_cmp);
    times[MEASUREMENTS / 2]
}

/// Prints the times of a child.
fn measure() {
    let cache = KmemCache::create("measured", BYTES, &CacheArgs::DEFAULT).expect("a cache");
    // SAFETY: each object was allocated by the function before, and is freed once.
    let times = unsafe {
        [
            time(|| malloc::malloc(BYTES), |object| malloc::free(object)),
            time(|| kmalloc(BYTES), |object| kfree(object)),
            time(
                || cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr),
                |object| NonNull::new(object).into_iter().for_each(|object| cache.free(object)),
            ),
        ]
    };
    println!("{} {} {}", times[0], times[1], times[2]);
}

/// Returns the times that a child with these options measures.
fn child(options: &str, debug: Option<&str>) -> [f64; COLUMNS.len()] {
    let mut command = Command::new(std::env::current_exe().expect("the example has a path"));
    command.env(CHILD, "1").env("ASHLAR_OPTIONS", options).env_remove("ASHLAR_DEBUG");
    command.envs(debug.map(|letters| ("ASHLAR_DEBUG", letters)));
    let out = command.output().expect("the example runs");
    let text = String::from_utf8(out.stdout).expect("numbers");
    let mut times = text.split_whitespace().map(|time| time.parse().expect("a number"));
    core::array::from_fn(|_| times.next().expect("three numbers"))
}

/// Returns the mean of a column, and how far the limits of its interval are from it.
fn interval(times: &[[f64; COLUMNS.len()]], column: usize) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().map(|row| row[column]).sum::<f64>() / count;
    let squares: f64 = times.iter().map(|row| (row[column] - mean).powi(2)).sum();
    (mean, 1.96 * (squares / (count - 1.0) / count).sqrt())
}

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    let rounds = std::env::args().nth(1).map_or(Ok(20), |text| text.parse());
    let rounds: usize = rounds.expect("ROUNDS: expected a number of rounds");
    assert!(rounds > 1, "ROUNDS: expected two rounds or more");
    let mut times = vec![Vec::new(); ROWS.len()];
    for round in 0..rounds {
        for at in 0..ROWS.len() {
            let row = (at + round * 5) % ROWS.len();
            times[row].push(child(ROWS[row].1, ROWS[row].2));
        }
    }
    println!("ns for a pair of {BYTES} bytes, {rounds} rounds");
    println!("{:<16} {:>16} {:>16} {:>16}", "", COLUMNS[0], COLUMNS[1], COLUMNS[2]);
    for ((name, ..), times) in ROWS.iter().zip(&times) {
        let cells = (0..COLUMNS.len()).map(|column| {
            let (mean, half) = interval(times, column);
            format!(" {:>16}", format!("{mean:.2} ± {half:.2}"))
        });
        println!("{name:<16}{}", cells.collect::<String>());
    }
}
